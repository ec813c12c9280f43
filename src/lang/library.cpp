#include "lang/library.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

#include "lang/elaborate.h"
#include "lang/parser.h"

namespace opwright::lang {

struct Library::Impl {
    const Library* base = nullptr;  // whose operators can be called too
    std::vector<std::unique_ptr<File>> files;
    std::map<std::string, const OpDecl*> ops;

    Resolver resolver() const {
        Resolver r;
        r.find = [this](const std::string& n, const OpDecl& from) -> const OpDecl* {
            // A declaration of the base sees only the base: a name hidden here means to it what it meant there.
            if (base && base->find(from.name) == &from) return base->find(n);
            if (const auto it = ops.find(n); it != ops.end()) return it->second;
            return base ? base->find(n) : nullptr;
        };
        r.names = [this] {
            std::vector<std::string> all = base ? base->names() : std::vector<std::string>();
            for (const auto& [n, d] : ops) all.push_back(n);
            return all;
        };
        return r;
    }
};

Library::Library() : Library(&standard()) {}
Library::Library(const Library* base) : impl_(std::make_unique<Impl>()) { impl_->base = base; }
Library::~Library() = default;
Library::Library(Library&&) noexcept = default;

const Library& Library::standard() {
    static const Library library = [] {
        Library l(nullptr);
        for (const EmbeddedFile& f : embedded_library()) {
            auto source = std::make_shared<const Source>(Source{std::string(f.name), std::string(f.text)});
            if (const Status s = l.add(std::move(source)); !s.ok()) {
                std::fprintf(stderr, "The operator library is broken.\n%s\n", render(s.error()).c_str());
                std::abort();
            }
        }
        return l;
    }();
    return library;
}

Status Library::add(SourceRef source, std::vector<Diagnostic>* all_errors) {
    ParseResult r = parse(source);
    if (r.errors.empty()) {
        std::map<std::string, const OpDecl*> seen;
        for (const auto& op : r.file->ops) {
            const OpDecl* before = nullptr;
            if (const auto it = impl_->ops.find(op->name); it != impl_->ops.end()) before = it->second;
            if (const auto [it, fresh] = seen.emplace(op->name, op.get()); !fresh) before = it->second;
            if (!before) continue;
            r.errors.push_back(
                Diagnostic(fmt::format("The operator `{}` is declared twice.", op->name),
                           op->span(op->name_at, op->name_end), "Rename one of the two.")
                    .with_note("the first declaration is here", before->span(before->name_at, before->name_end)));
        }
    }
    if (!r.errors.empty()) {
        const Diagnostic first = r.errors.front();
        if (all_errors) all_errors->insert(all_errors->end(), r.errors.begin(), r.errors.end());
        return first;
    }
    for (const auto& op : r.file->ops) impl_->ops[op->name] = op.get();
    impl_->files.push_back(std::move(r.file));
    return ok_status();
}

const OpDecl* Library::find(const std::string& name) const {
    const auto it = impl_->ops.find(name);
    if (it != impl_->ops.end()) return it->second;
    return impl_->base ? impl_->base->find(name) : nullptr;
}
std::vector<std::string> Library::names() const {
    std::vector<std::string> all = impl_->resolver().names();
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
}
std::vector<const OpDecl*> Library::declarations_of(const std::string& file) const {
    std::vector<const OpDecl*> out;
    for (const auto& f : impl_->files)
        if (f->source->name == file)
            for (const auto& op : f->ops) out.push_back(op.get());
    return out;
}

Result<math::Program> Library::elaborate(const std::string& op, const std::vector<Argument>& arguments,
                                         const Attributes& attributes, Broadcasting broadcasting) const {
    const OpDecl* d = find(op);
    if (!d) return unknown(op);
    return lang::elaborate(*d, arguments, attributes, broadcasting, impl_->resolver());
}
Result<math::Program> Library::elaborate_symbolic(const std::string& op, int pack_rank,
                                                  std::optional<DType> floats) const {
    const OpDecl* d = find(op);
    if (!d) return unknown(op);
    return lang::elaborate_symbolic(*d, pack_rank, floats, impl_->resolver());
}
Diagnostic Library::unknown(const std::string& op) const {
    const std::string near = did_you_mean(op, names());
    return Diagnostic(
        fmt::format("There is no operator `{}`.", op), {},
        near.empty() ? "The command `opwright ops` lists the operators." : fmt::format("Did you mean `{}`?", near));
}

std::vector<Parameter> Library::parameters(const OpDecl& d) const {
    std::vector<Parameter> out;
    for (const Param& p : d.params) out.push_back({p.name, p.optional, p.variadic});
    return out;
}
std::vector<std::string> Library::attribute_names(const OpDecl& d) const {
    std::vector<std::string> out;
    for (const AttributeDecl& a : d.attributes) out.push_back(a.name);
    return out;
}
const std::string& Library::doc(const OpDecl& d) const { return d.doc; }
const std::string& Library::file(const OpDecl& d) const { return d.source->name; }
std::string Library::source_text(const OpDecl& d) const { return d.source->text.substr(d.begin, d.end - d.begin); }
Result<std::vector<Example>> Library::examples(const OpDecl& d) const { return examples_of(d); }
Result<Attributes> Library::parse_attributes(const OpDecl& d, SourceRef text) const {
    return attributes_of(d, std::move(text));
}

}  // namespace opwright::lang
