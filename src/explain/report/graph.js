'use strict';
// The graph of operators on a canvas: a card for a kernel with the model's operators that it computes inside, edges with
// the shapes that pass along them. Only what is in view is drawn, and as much of it as can be read at that size.
report.graph = (() => {
  const canvas = document.getElementById('graph-canvas'), stage = document.getElementById('graph-stage');
  const map = document.getElementById('graph-map'), context = canvas.getContext('2d');
  const kWidth = 240, kHead = 54, kInner = 22, kShown = 6, kPill = 26;
  const sans = getComputedStyle(document.body).fontFamily;

  const nodes = [], edges = [];
  let transform = d3.zoomIdentity, size = {width: 0, height: 0}, bounds = null, visible = [];
  let mode = 'share', found = null, over = null, ready = false, wanted = false, mapImage = null;
  const stats = {layoutMs: 0, drawMs: [], drawn: 0};

  // ---- what there is to draw

  function build() {
    const {graph} = report.data, maker = new Map();
    const add = n => { n.id = nodes.length; n.in = []; n.out = []; nodes.push(n); return n; };
    const used = new Set(graph.nodes.flatMap(n => n.inputs));
    for (const v of graph.inputs)
      if (used.has(v)) maker.set(v, add({kind: 'input', text: report.values.get(v).name || 'input', width: 0, height: kPill, value: v}));
    for (const n of graph.nodes) {
      let node;
      if (n.view !== undefined) {
        node = add({kind: 'view', text: n.view, width: 0, height: kPill});
      } else {
        const row = report.rows[n.row], inner = row.sources.length > 1 ? row.sources : [];
        const shown = inner.length > kShown + 1 ? inner.slice(0, kShown) : inner;
        const rest = inner.length - shown.length;
        node = add({kind: 'kernel', row, inner: shown, rest, width: kWidth, height: kHead + (shown.length ? 12 + kInner * (shown.length + (rest ? 1 : 0)) : 0)});
        row.card = node;
      }
      node.reads = n.inputs;
      for (const v of n.outputs) maker.set(v, node);
    }
    const connect = (from, to, v) => {
      const known = from.out.find(e => e.to === to);
      if (known) return void known.values.push(v);
      const edge = {from, to, values: [v]};
      from.out.push(edge);
      to.in.push(edge);
      edges.push(edge);
    };
    for (const n of [...nodes]) for (const v of n.reads || []) if (maker.has(v)) connect(maker.get(v), n, v);
    for (const v of graph.outputs)
      if (maker.has(v)) connect(maker.get(v), add({kind: 'output', text: report.values.get(v).name || 'output', width: 0, height: kPill, value: v}), v);
    context.font = `12px ${sans}`;
    for (const n of nodes) if (!n.width) n.width = Math.min(220, Math.max(64, context.measureText(n.text).width + 28));
    for (const e of edges) {
      e.label = report.shapeText(report.values.get(e.values[0])) + (e.values.length > 1 ? `  +${e.values.length - 1}` : '');
      e.labelWidth = context.measureText(e.label).width * 11 / 12;
    }
  }

  async function place() {
    const before = performance.now();
    const placed = await report.layout(
      nodes.map(n => ({v: String(n.id), width: n.width, height: n.height})),
      edges.map(e => ({v: String(e.from.id), w: String(e.to.id), minlen: 1, weight: 1, width: 0, height: 0, labeloffset: 10, labelpos: 'r'})));
    for (const [v, x, y] of placed.nodes) Object.assign(nodes[+v], {x, y});
    const line = d3.line().curve(d3.curveBasis);
    edges.forEach((e, i) => {
      e.points = placed.edges[i];
      e.path = new Path2D(line(e.points));
      e.box = [d3.min(e.points, p => p[0]), d3.min(e.points, p => p[1]), d3.max(e.points, p => p[0]), d3.max(e.points, p => p[1])];
      const middle = e.points[Math.floor(e.points.length / 2)], a = e.points[0], b = e.points[e.points.length - 1];
      e.at = e.points.length > 3 ? middle : [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2];
    });
    bounds = {
      x0: d3.min(nodes, n => n.x - n.width / 2) ?? 0, x1: d3.max(nodes, n => n.x + n.width / 2) ?? 1,
      y0: d3.min(nodes, n => n.y - n.height / 2) ?? 0, y1: d3.max(nodes, n => n.y + n.height / 2) ?? 1,
    };
    stats.layoutMs = performance.now() - before;
  }

  // ---- colours

  const largest = Math.max(...report.rows.map(r => r.share), 1e-12);
  const largestLoss = Math.max(...report.rows.map(r => r.gain), 1e-12);
  const largestDelta = Math.max(...report.pairs.map(p => Math.abs(p.delta)), 1e-12);
  function fill(row) {
    if (mode === 'bound') return colours.bound(row.bound);
    if (mode === 'gain') return colours.heat(Math.sqrt(row.gain / largestLoss));
    if (mode === 'change') {
      const p = report.pairOf.get(row.index), t = p && p.before ? p.delta / largestDelta : 0;
      return colours.change(Math.sign(t) * Math.sqrt(Math.abs(t)));
    }
    return colours.heat(Math.sqrt(row.share / largest));
  }

  // ---- drawing

  function box(x, y, w, h, r) {
    context.beginPath();
    context.roundRect(x, y, w, h, r);
  }
  const widths = new Map();
  // Of a path it is the end that tells.
  function cut(text, room, font, end = false) {
    context.font = font;
    const key = font + '\0' + room + '\0' + text;
    if (widths.has(key)) return widths.get(key);
    let shown = text;
    if (context.measureText(text).width > room) {
      let low = 0, high = text.length;
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        const part = end ? '…' + text.slice(text.length - middle) : text.slice(0, middle) + '…';
        if (context.measureText(part).width <= room) low = middle; else high = middle - 1;
      }
      shown = end ? '…' + text.slice(text.length - low) : text.slice(0, low).trimEnd() + '…';
    }
    widths.set(key, shown);
    return shown;
  }

  function drawKernel(n, k) {
    const {row} = n, x = n.x - n.width / 2, y = n.y - n.height / 2, c = fill(row), chosen = report.chosen === row.index;
    const dim = found && !found.has(row.index);
    context.globalAlpha = dim ? 0.22 : 1;
    if (k < 0.34) {  // a coloured field
      box(x, y, n.width, n.height, 10);
      context.fillStyle = c;
      context.fill();
      context.strokeStyle = chosen ? colours.variable('--accent') : colours.variable('--line-strong');
      context.lineWidth = chosen ? 3 / k : 1;
      context.stroke();
      if (k > 0.16) {
        context.fillStyle = colours.on(c);
        context.textAlign = 'center';
        context.fillText(cut(row.type, n.width - 20, `600 26px ${sans}`), n.x, n.y + 9);
        context.textAlign = 'left';
      }
      context.globalAlpha = 1;
      return;
    }
    box(x, y, n.width, n.height, 10);
    context.fillStyle = colours.variable('--card');
    context.fill();
    context.save();
    context.clip();
    context.fillStyle = c;
    context.fillRect(x, y, n.width, kHead);
    context.restore();
    box(x, y, n.width, n.height, 10);
    context.strokeStyle = chosen ? colours.variable('--accent') : over === n ? colours.variable('--text') : colours.variable('--line-strong');
    context.lineWidth = chosen ? 3 : 1.2;
    context.stroke();
    const ink = colours.on(c);
    context.fillStyle = ink;
    const time = format.time(row.min_ms);
    context.font = `600 13px ${sans}`;
    const room = context.measureText(time).width;
    context.textAlign = 'right';
    context.fillText(time, x + n.width - 12, y + 22);
    context.textAlign = 'left';
    context.fillText(cut(row.type, n.width - 34 - room, `650 13.5px ${sans}`), x + 12, y + 22);
    context.font = `12px ${sans}`;
    const share = format.percent(row.share), shareRoom = context.measureText(share).width;
    context.textAlign = 'right';
    context.fillText(share, x + n.width - 12, y + 41);
    context.textAlign = 'left';
    context.fillText(cut(report.shortName(row.name), n.width - 34 - shareRoom, `12px ${sans}`, row.name.includes('/')), x + 12, y + 41);
    if (n.inner.length) drawInner(n, x, y + kHead + 6);
    context.globalAlpha = 1;
  }
  // The model's operators that a fused kernel computes, in their order, inside an outline of their own.
  function drawInner(n, x, y) {
    const line = colours.variable('--line-strong');
    n.inner.forEach((s, i) => {
      const top = y + i * kInner;
      box(x + 10, top + 2, n.width - 20, kInner - 4, 5);
      context.fillStyle = colours.variable('--sunken');
      context.fill();
      context.strokeStyle = line;
      context.lineWidth = 0.8;
      context.stroke();
      context.fillStyle = colours.variable('--text');
      const type = cut(s.type, 104, `600 11.5px ${sans}`);
      context.fillText(type, x + 18, top + 15);
      context.fillStyle = colours.variable('--soft');
      if (s.name !== s.type) context.fillText(cut(s.name.replace(/^.*\/(?=.)/, '…/'), n.width - 148, `11.5px ${sans}`), x + 128, top + 15);
    });
    if (!n.rest) return;
    context.fillStyle = colours.variable('--soft');
    context.font = `11.5px ${sans}`;
    context.fillText(`and ${n.rest} more`, x + 18, y + n.inner.length * kInner + 15);
  }
  function drawPill(n, k) {
    const x = n.x - n.width / 2, y = n.y - n.height / 2;
    context.globalAlpha = found ? 0.3 : 1;
    box(x, y, n.width, n.height, n.height / 2);
    context.fillStyle = n.kind === 'view' ? colours.variable('--page') : colours.variable('--accent-soft');
    context.fill();
    context.strokeStyle = n.kind === 'view' ? colours.variable('--line-strong') : colours.variable('--accent');
    context.lineWidth = 1;
    if (n.kind === 'view') context.setLineDash([4, 3]);
    context.stroke();
    context.setLineDash([]);
    if (k >= 0.34) {
      context.fillStyle = colours.variable(n.kind === 'view' ? '--soft' : '--text');
      context.textAlign = 'center';
      context.fillText(cut(n.text, n.width - 18, `12px ${sans}`), n.x, n.y + 4);
      context.textAlign = 'left';
    }
    context.globalAlpha = 1;
  }

  function drawEdges(area, k) {
    const chosen = report.chosen >= 0 ? report.rows[report.chosen].card : null;
    const seen = edges.filter(e => e.box[2] >= area.x0 && e.box[0] <= area.x1 && e.box[3] >= area.y0 && e.box[1] <= area.y1);
    context.lineWidth = Math.max(1.2, 0.7 / k);
    for (const e of seen) {
      const mine = chosen && (e.from === chosen || e.to === chosen);
      context.strokeStyle = colours.variable(mine ? '--accent' : '--line-strong');
      context.stroke(e.path);
      if (k < 0.25) continue;
      const [x, y] = e.points[e.points.length - 1];
      context.beginPath();
      context.moveTo(x, y);
      context.lineTo(x - 4, y - 7);
      context.lineTo(x + 4, y - 7);
      context.fillStyle = context.strokeStyle;
      context.fill();
    }
    if (k < 0.55) return;
    // Shapes beside their edges, where there is room for them.
    context.font = `11px ${sans}`;
    context.lineJoin = 'round';
    const taken = [];
    for (const e of seen) {
      const x = e.at[0] + 6, y = e.at[1] + 4;
      const rect = [x - 2, y - 11, x + e.labelWidth + 2, y + 4];
      if (taken.some(t => t[0] < rect[2] && rect[0] < t[2] && t[1] < rect[3] && rect[1] < t[3])) continue;
      if (visible.some(n => n.x - n.width / 2 < rect[2] && rect[0] < n.x + n.width / 2 && n.y - n.height / 2 < rect[3] && rect[1] < n.y + n.height / 2)) continue;
      taken.push(rect);
      context.lineWidth = 4;
      context.strokeStyle = colours.variable('--card');
      context.strokeText(e.label, x, y);
      context.fillStyle = colours.variable('--soft');
      context.fillText(e.label, x, y);
    }
  }

  function draw() {
    wanted = false;
    if (!ready || !size.width) return;
    const before = performance.now(), k = transform.k, ratio = window.devicePixelRatio || 1;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, size.width, size.height);
    context.translate(transform.x, transform.y);
    context.scale(k, k);
    const area = {x0: -transform.x / k, y0: -transform.y / k, x1: (size.width - transform.x) / k, y1: (size.height - transform.y) / k};
    visible = nodes.filter(n => n.x + n.width / 2 >= area.x0 && n.x - n.width / 2 <= area.x1 && n.y + n.height / 2 >= area.y0 && n.y - n.height / 2 <= area.y1);
    drawEdges(area, k);
    for (const n of visible) n.kind === 'kernel' ? drawKernel(n, k) : drawPill(n, k);
    drawMap(area);
    stats.drawn = visible.length;
    stats.drawMs.push(performance.now() - before);
    if (stats.drawMs.length > 1000) stats.drawMs.shift();
  }
  const redraw = () => { if (!wanted) { wanted = true; requestAnimationFrame(draw); } };

  // ---- the whole graph, small, with the part in view

  // A long chain is drawn wider than it is, so that it can be seen and hit.
  function mapScale() {
    const w = bounds.x1 - bounds.x0, h = bounds.y1 - bounds.y0;
    const y = Math.min(0.25, (size.height - 32) / h);
    return {x: Math.min(0.25, 150 / w, Math.max(y, 48 / w)), y};
  }
  function makeMap() {
    const s = mapScale(), ratio = window.devicePixelRatio || 1;
    const w = (bounds.x1 - bounds.x0) * s.x + 8, h = (bounds.y1 - bounds.y0) * s.y + 8;
    map.width = w * ratio;
    map.height = h * ratio;
    map.style.setProperty('width', `${w}px`);
    map.style.setProperty('height', `${h}px`);
    mapImage = document.createElement('canvas');
    mapImage.width = map.width;
    mapImage.height = map.height;
    const c = mapImage.getContext('2d');
    c.scale(ratio, ratio);
    c.translate(4 - bounds.x0 * s.x, 4 - bounds.y0 * s.y);
    c.strokeStyle = colours.variable('--line-strong');
    c.lineWidth = 0.5;
    for (const n of nodes) {
      if (n.kind !== 'kernel') continue;
      c.globalAlpha = found && !found.has(n.row.index) ? 0.2 : 1;
      c.fillStyle = fill(n.row);
      const box = [(n.x - n.width / 2) * s.x, (n.y - n.height / 2) * s.y, n.width * s.x, Math.max(n.height * s.y, 1)];
      c.fillRect(...box);
      if (box[3] > 3) c.strokeRect(...box);
    }
  }
  function drawMap(area) {
    if (!mapImage) makeMap();
    const whole = area.x0 <= bounds.x0 && area.x1 >= bounds.x1 && area.y0 <= bounds.y0 && area.y1 >= bounds.y1;
    map.hidden = whole;
    if (whole) return;
    const c = map.getContext('2d'), s = mapScale(), ratio = window.devicePixelRatio || 1;
    c.setTransform(1, 0, 0, 1, 0, 0);
    c.clearRect(0, 0, map.width, map.height);
    c.drawImage(mapImage, 0, 0);
    c.scale(ratio, ratio);
    c.strokeStyle = colours.variable('--accent');
    c.lineWidth = 1.5;
    const x0 = Math.max(1, 4 + (area.x0 - bounds.x0) * s.x), y0 = Math.max(1, 4 + (area.y0 - bounds.y0) * s.y);
    const x1 = Math.min(map.width / ratio - 1, 4 + (area.x1 - bounds.x0) * s.x), y1 = Math.min(map.height / ratio - 1, 4 + (area.y1 - bounds.y0) * s.y);
    if (x1 > x0 && y1 > y0) c.strokeRect(x0, y0, x1 - x0, Math.max(3, y1 - y0));
  }

  // ---- moving about

  const zoom = d3.zoom().scaleExtent([0.02, 3]).on('zoom', () => { transform = d3.event.transform; hideTip(); redraw(); });
  const view = d3.select(canvas);
  const to = (t, smooth) => {
    const calm = matchMedia('(prefers-reduced-motion: reduce)').matches || !smooth;
    (calm ? view : view.transition().duration(260)).call(zoom.transform, t);
  };
  const fitScale = () => Math.min(1.1, (size.width - 48) / (bounds.x1 - bounds.x0), (size.height - 48) / (bounds.y1 - bounds.y0));
  function fit(smooth = true) {
    const k = fitScale();
    to(d3.zoomIdentity.translate(size.width / 2 - k * (bounds.x0 + bounds.x1) / 2, size.height / 2 - k * (bounds.y0 + bounds.y1) / 2).scale(k), smooth);
  }
  function centre(n, smooth = true, scale = Math.max(transform.k, 0.85)) {
    to(d3.zoomIdentity.translate(size.width / 2 - scale * n.x, size.height / 2 - scale * n.y).scale(scale), smooth);
  }
  // All of it where it can be read then; else the costliest kernel and what is around it.
  function start() {
    if (fitScale() >= 0.45 || report.byTime.length === 0) fit(false);
    else centre(report.byTime[0].card, false, 0.9);
  }
  function at(event) {
    const r = canvas.getBoundingClientRect(), x = (event.clientX - r.left - transform.x) / transform.k, y = (event.clientY - r.top - transform.y) / transform.k;
    return visible.find(n => Math.abs(x - n.x) <= n.width / 2 && Math.abs(y - n.y) <= n.height / 2) || null;
  }
  // The nearest kernel before, behind or beside the chosen one.
  function neighbour(key) {
    const current = report.chosen >= 0 ? report.rows[report.chosen].card : null;
    if (!current) return report.byTime[0] && report.byTime[0].card;
    const along = (n, ways, end) => {
      const next = n[ways].map(e => e[end]);
      return next.flatMap(m => (m.kind === 'kernel' ? [m] : along(m, ways, end)));
    };
    if (key === 'ArrowDown' || key === 'ArrowUp') {
      const next = key === 'ArrowDown' ? along(current, 'out', 'to') : along(current, 'in', 'from');
      return next.sort((a, b) => Math.abs(a.x - current.x) - Math.abs(b.x - current.x))[0];
    }
    const side = key === 'ArrowLeft' ? -1 : 1;
    return nodes.filter(n => n.kind === 'kernel' && (n.x - current.x) * side > 1 && Math.abs(n.y - current.y) < 400)
      .sort((a, b) => Math.hypot(a.x - current.x, 2 * (a.y - current.y)) - Math.hypot(b.x - current.x, 2 * (b.y - current.y)))[0];
  }

  const hideTip = () => report.tip(null);
  canvas.addEventListener('mousemove', event => {
    const n = at(event);
    if (n !== over) { over = n; redraw(); }
    canvas.classList.toggle('over', Boolean(n && n.kind === 'kernel'));
    if (!n) return hideTip();
    if (n.kind === 'kernel') return report.tip(event, report.rowTip(n.row));
    const v = n.value !== undefined ? report.values.get(n.value) : report.values.get(n.reads[0]);
    report.tip(event, {what: n.text, who: n.kind === 'view' ? `${report.shapeText(v)} seen under another shape: no work` : `${n.kind} ${report.shapeText(v)}`, facts: []});
  });
  canvas.addEventListener('mouseleave', () => { over = null; hideTip(); redraw(); });
  canvas.addEventListener('click', event => {
    const n = at(event);
    if (n && n.kind === 'kernel') report.select(n.row.index, 'graph');
  });
  canvas.addEventListener('keydown', event => {
    if (event.key.startsWith('Arrow')) {
      const n = neighbour(event.key);
      if (n) { report.choose(n.row.index); centre(n); }
    } else if (event.key === 'Enter' || event.key === ' ') {
      if (report.chosen >= 0) report.select(report.chosen, 'keyboard');
    } else if (event.key === '+' || event.key === '=') view.call(zoom.scaleBy, 1.25);
    else if (event.key === '-') view.call(zoom.scaleBy, 0.8);
    else if (event.key === '0') fit();
    else return;
    event.preventDefault();
  });
  const fromMap = event => {
    const r = map.getBoundingClientRect(), s = mapScale();
    centre({x: bounds.x0 + (event.clientX - r.left - 4) / s.x, y: bounds.y0 + (event.clientY - r.top - 4) / s.y}, false, transform.k);
  };
  map.addEventListener('pointerdown', event => { map.setPointerCapture(event.pointerId); fromMap(event); });
  map.addEventListener('pointermove', event => { if (event.buttons) fromMap(event); });

  function resize() {
    const r = stage.getBoundingClientRect(), ratio = window.devicePixelRatio || 1;
    if (r.width === 0) return;
    const first = size.width === 0, shift = (r.width - size.width) / 2;
    size = {width: r.width, height: r.height};
    canvas.width = Math.round(r.width * ratio);
    canvas.height = Math.round(r.height * ratio);
    mapImage = null;
    if (ready && !first) view.call(zoom.transform, d3.zoomIdentity.translate(transform.x + shift, transform.y).scale(transform.k));
    redraw();
  }

  function legend() {
    const e = document.getElementById('graph-legend');
    const key = (colour, text) => el('span.key', {}, el('span.swatch', {style: {background: colour}}), text);
    const ramp = (from, to, f, low, high) => {
      const c = el('canvas.ramp', {width: 150, height: 10, role: 'img', 'aria-label': `${low} to ${high}`}), g = c.getContext('2d');
      for (let x = 0; x < 150; ++x) { g.fillStyle = f(from + (to - from) * x / 149); g.fillRect(x, 0, 1, 10); }
      return el('span.key', {}, low, c, high);
    };
    const colour = {
      share: () => ramp(0, 1, colours.heat, 'little time', `${format.percent(largest)} of the time`),
      gain: () => ramp(0, 1, colours.heat, 'nothing to gain', `${format.time(largestLoss)} to gain`),
      change: () => ramp(-1, 1, colours.change, 'faster', 'slower'),
    };
    const keys = mode === 'bound' ? Object.entries(report.boundText).map(([b, text]) => key(colours.bound(b), `bound by ${text}`)) : [colour[mode]()];
    const more = [];
    if (nodes.some(n => n.inner && n.inner.length)) more.push(el('span.key', {}, 'Boxes inside a card: operators of the model that became one kernel'));
    if (nodes.some(n => n.kind === 'view')) more.push(el('span.key', {}, 'Dashed: another shape of the same data, no work'));
    e.replaceChildren(...keys, ...more);
  }
  function refresh() { mapImage = null; legend(); redraw(); }

  async function init() {
    build();
    const modes = [['share', 'Time'], ['gain', 'To gain'], ['bound', 'Bound'], ...(report.baseline ? [['change', 'Change']] : [])];
    const buttons = modes.map(([key, text]) => el('button', {
      type: 'button', 'aria-pressed': String(key === mode), onclick: event => {
        mode = key;
        for (const b of event.target.parentNode.children) b.setAttribute('aria-pressed', String(b === event.target));
        refresh();
      }}, text));
    document.getElementById('graph-choices').append(el('div.switch', {role: 'group', 'aria-label': 'Colour of the cards'}, buttons));
    const button = (text, label, act) => el('button.icon', {type: 'button', 'aria-label': label, title: label, onclick: act}, text);
    document.getElementById('graph-zoom').append(
      button('+', 'Zoom in', () => view.call(zoom.scaleBy, 1.3)), button('−', 'Zoom out', () => view.call(zoom.scaleBy, 1 / 1.3)),
      button('⤢', 'Show all', () => fit()));
    view.call(zoom).on('dblclick.zoom', null);
    new ResizeObserver(resize).observe(stage);
    resize();
    await place();
    ready = true;
    document.getElementById('graph-busy').hidden = true;
    start();
    legend();
    redraw();
  }
  return {
    init, refresh, redraw, stats, nodes, edges,
    show: index => { const n = report.rows[index].card; if (ready && n) centre(n); },
    highlight(rows) { found = rows; mapImage = null; redraw(); },
    // For tests: draws one frame at a place and tells how long that took.
    frame(x, y, k) { transform = d3.zoomIdentity.translate(x, y).scale(k); draw(); return stats.drawMs[stats.drawMs.length - 1]; },
    get bounds() { return bounds; }, get ready() { return ready; }, get transform() { return transform; },
  };
})();
