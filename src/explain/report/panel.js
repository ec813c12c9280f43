'use strict';
// What is known of one kernel, at the side: figures, where its time goes, what to change, its declaration and code.
report.panel = (() => {
  const panel = document.getElementById('panel'), layout = document.getElementById('layout');
  const levelText = {schedule: 'Schedule', tile: 'Tiles', loop: 'Loops', llvm: 'LLVM', asm: 'Assembly', cuda: 'CUDA C++', triton: 'Triton', c: 'C', ascend: 'Ascend C'};

  const fact = (label, value) => el('div', {}, el('span', {}, label), el('b', {}, value));
  function facts(r) {
    const p = report.pairOf.get(r.index);
    return el('div.facts', {},
      fact('Least time', format.time(r.min_ms)), fact('Median', format.time(r.ms)), fact('Share of the run', format.percent(r.share)),
      fact('Operations', format.count(r.flops) + (r.flops ? 'FLOP' : '')), fact('Bytes to move', format.bytes(r.bytes)), fact('FLOP per byte', r.intensity ? r.intensity.toPrecision(3) : '0'),
      fact('Bound by', report.boundText[r.bound]), fact('Of its floor', format.percent(r.of_floor)), fact('To gain', format.time(r.gain)),
      r.one_thread_ms ? fact('On one thread', format.time(r.one_thread_ms)) : null,
      p && p.before ? fact('In the baseline', format.time(p.before.min_ms)) : null,
      p && p.before ? fact('Change', format.delta(p.delta)) : null);
  }

  function parts(r) {
    if (!r.parts || !r.parts.length) return null;
    const sum = r.parts.reduce((s, p) => s + p.ms, 0);
    return el('section', {}, el('h3', {}, 'Where its time goes'),
      el('div.stack', {role: 'img', 'aria-label': r.parts.map(p => `${p.cause} ${format.time(p.ms)}`).join(', ')},
        r.parts.map(p => el('i', {title: `${p.cause} ${format.time(p.ms)}`, style: {width: `${100 * p.ms / sum}%`, background: colours.cause(p.cause)}}))),
      el('div.keys', {}, r.parts.map(p => el('span.key', {}, el('span.swatch', {style: {background: colours.cause(p.cause)}}), p.cause, el('b', {}, format.time(p.ms))))));
  }

  function floors(r) {
    const list = [['start of a kernel', r.floors_ms.launch, '--launch'], ['memory', r.floors_ms.memory, '--memory'], ['arithmetic', r.floors_ms.arithmetic, '--arithmetic']];
    const most = Math.max(r.min_ms, ...list.map(f => f[1]));
    const line = ([text, ms, colour]) => [el('span', {}, text), el('span.track', {}, el('i', {style: {width: `${100 * ms / most}%`, background: `var(${colour})`}})), el('span', {}, format.time(ms))];
    return el('section', {}, el('h3', {}, 'Floors, beside its time'),
      el('div.floors', {}, list.flatMap(line), ...line(['its least time', r.min_ms, '--faint'])));
  }

  function changes(r) {
    if (!r.advice && !r.changes.length) return null;
    return el('section', {}, el('h3', {}, 'Why it takes that long'), r.advice ? el('p.advice', {}, r.advice) : null,
      r.changes.map(c => el('div.change', {}, el('span.gain', {}, `up to ${format.time(c.gain_ms)}`), el('span', {}, c.cause), el('span.why', {}, c.what))));
  }

  function sources(r) {
    return el('section', {}, el('h3', {}, r.sources.length > 1 ? `${r.sources.length} operators of the model` : 'Operator of the model'),
      el('div.chips', {}, r.sources.map(s => el('span.chip', {title: s.name}, s.type === s.name ? s.name : `${s.type}  ${report.shortName(s.name)}`))));
  }
  function decisions(r) {
    const list = report.decisionsOf(r);
    if (!list.length) return null;
    return el('section', {}, el('h3', {}, 'Fusion'), el('ul.list', {}, list.slice(0, 40).map(d => el('li', {},
      el('div', {}, `${d.taken ? 'Fused' : 'Kept apart'}: ${report.shortName(d.producer)} → ${report.shortName(d.consumer)}`),
      el('div.muted', {}, `${d.reason}; ${d.taken ? 'saves' : 'would save'} ${format.bytes(d.bytes)}${report.fusionMore(d)}`)))));
  }
  function values(r) {
    const node = report.data.graph.nodes.find(n => n.row === r.index);
    if (!node) return null;
    const line = (v, what) => {
      const x = report.values.get(v);
      return el('li', {}, el('div', {}, x.name || '(unnamed)'), el('div.muted', {}, `${what} ${report.shapeText(x)}, ${format.bytes(x.bytes)}${x.constant ? ', constant' : ''}`));
    };
    return el('section', {}, el('h3', {}, 'Reads and writes'), el('ul.list', {}, node.inputs.map(v => line(v, 'reads')), node.outputs.map(v => line(v, 'writes'))));
  }
  function launches(r) {
    if (!r.launches) return null;
    return el('section', {}, el('h3', {}, 'Launches'), el('ul.list', {}, r.launches.map(l => el('li', {}, el('div', {}, l.kernel),
      el('div.muted', {}, `${format.count(l.blocks)} blocks of ${l.threads} threads, ${l.registers} registers a thread` +
        `${l.spilled_bytes ? `, ${l.spilled_bytes} bytes spilled` : ''}, ${format.bytes(l.shared_bytes)} shared, ${format.percent(l.occupancy)} occupied, ${l.waves.toPrecision(2)} waves`)))));
  }

  function code(r) {
    const k = r.kernel, pages = [];
    k.declarations.forEach(d => pages.push([k.declarations.length > 1 ? d.name : 'Declaration', 'declaration', d.text]));
    if (k.equations !== undefined) pages.push(['Equations', 'equations', k.equations]);
    for (const c of k.code) pages.push([levelText[c.level] || c.level, c.level, c.text]);
    if (!pages.length) return null;
    const body = el('div.code', {role: 'tabpanel'}), tabs = el('div.tabs', {role: 'tablist'});
    const show = i => {
      [...tabs.children].forEach((b, j) => { b.setAttribute('aria-selected', String(i === j)); b.tabIndex = i === j ? 0 : -1; });
      const [, kind, index] = pages[i], text = report.text(index);
      if (text === undefined) {
        const level = kind === 'equations' ? 'math' : kind;
        body.replaceChildren(el('p.hint', {}, `Left out to keep this page small. It is in: opwright explain MODEL --level ${level} --node '${r.name}'`));
        return;
      }
      body.replaceChildren(el('pre', {tabindex: 0}, report.highlight(text, kind)),
        el('button.copy', {type: 'button', onclick: event => navigator.clipboard && navigator.clipboard.writeText(text).then(() => { event.target.textContent = 'Copied'; })}, 'Copy'));
    };
    tabs.append(...pages.map(([text], i) => el('button', {type: 'button', role: 'tab', onclick: () => show(i), onkeydown: event => {
      const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
      if (!step) return;
      const next = (i + step + pages.length) % pages.length;
      show(next);
      tabs.children[next].focus();
    }}, text)));
    show(0);
    return el('section', {}, el('h3', {}, 'Declaration and code'), tabs, body);
  }

  function show(index, focus) {
    const r = report.rows[index];
    panel.replaceChildren(
      el('button.icon.close', {type: 'button', 'aria-label': 'Close', title: 'Close (Esc)', onclick: hide}, '✕'),
      el('h2', {}, r.type.split('+').flatMap((t, i) => (i ? ['+', el('wbr'), t] : [t]))), r.name !== r.type ? el('p.who', {}, r.name) : '', el('p.shapes', {}, r.shapes),
      ...[facts(r), parts(r), changes(r), floors(r), launches(r), r.schedule ? el('section', {}, el('h3', {}, 'Schedule'), el('p', {}, r.schedule)) : null,
        sources(r), decisions(r), values(r), code(r)].filter(Boolean));
    panel.hidden = false;
    panel.scrollTop = 0;
    layout.classList.add('open');
    if (focus) panel.focus({preventScroll: true});
  }
  function hide() {
    panel.hidden = true;
    panel.replaceChildren();
    layout.classList.remove('open');
    report.choose(-1);
  }
  return {show, hide, get open() { return !panel.hidden; }, refresh() { if (!panel.hidden && report.chosen >= 0) show(report.chosen, false); }};
})();

// What the planner expected and measured, where the log tells.
report.fusionMore = d => {
  const more = [], pair = (apart, fused, how) => { if (apart && fused) more.push(`${format.time(apart)} apart, ${format.time(fused)} fused (${how})`); };
  pair(d.predicted_apart_ms, d.predicted_fused_ms, 'predicted');
  pair(d.measured_apart_ms, d.measured_fused_ms, 'measured');
  if (d.recompute > 1) more.push(`each element computed ${d.recompute.toPrecision(2)} times`);
  if (d.spills) more.push(`${d.live_values} values alive for ${d.registers} registers`);
  return more.length ? '; ' + more.join(', ') : '';
};
