'use strict';
// The parts of the page put together: overview, sections, the chosen kernel, colours.
(() => {
  const {profile, rows} = report, byId = id => document.getElementById(id);
  report.chosen = -1;

  // ---- the chosen kernel, everywhere at once
  report.choose = index => {
    report.chosen = index;
    report.graph.redraw();
    report.roofline.mark();
    report.markRows();
    if (index >= 0) {
      const r = rows[index];
      report.say(`${r.type} ${r.name}, ${format.time(r.min_ms)}, ${format.percent(r.share)} of the run`);
      if (report.panel.open) report.panel.show(index, false);
    }
  };
  report.select = (index, from) => {
    report.panel.show(index, from === 'keyboard');
    report.choose(index);
    if (from !== 'graph') requestAnimationFrame(() => requestAnimationFrame(() => report.graph.show(index)));
  };
  report.say = text => { byId('live').textContent = text; };

  // ---- what is shown under the mouse
  const tip = byId('tip');
  report.rowTip = r => ({what: r.type, who: r.name === r.type ? '' : r.name, facts: [
    ['time', `${format.time(r.min_ms)}, ${format.percent(r.share)}`], ['floor', `${format.time(r.floor)}, ${format.percent(r.of_floor)} reached`],
    ['bound by', report.boundText[r.bound]], ['operations', format.count(r.flops)], ['bytes', format.bytes(r.bytes)], ['to gain', format.time(r.gain)]]});
  report.tip = (event, about) => {
    if (!event) { tip.hidden = true; return; }
    tip.replaceChildren(el('div.what', {}, about.what), about.who ? el('div.who', {}, about.who) : '', el('dl', {}, about.facts.flatMap(([k, v]) => [el('dt', {}, k), el('dd', {}, v)])));
    tip.hidden = false;
    const w = tip.offsetWidth, h = tip.offsetHeight;
    tip.style.left = `${Math.min(event.clientX + 16, innerWidth - w - 8)}px`;
    tip.style.top = `${event.clientY + 18 + h > innerHeight ? event.clientY - h - 12 : event.clientY + 18}px`;
  };

  // ---- overview
  function overview() {
    const m = profile.machine, device = profile.device;
    const name = (profile.target || profile.name).replace(/^.*\//, '');
    document.title = `${name}: Opwright profile`;
    byId('title').textContent = name;
    const setting = [profile.name !== profile.target && profile.name !== name ? profile.name : null, m.processor, device ? null : `${profile.threads} thread${profile.threads === 1 ? '' : 's'}`, device ? null : m.level, `Opwright ${report.data.version}`].filter(Boolean);
    byId('subtitle').textContent = setting.join(' · ');
    const floor = rows.reduce((s, r) => s + r.floor, 0), total = report.totalLeast || 1e-12;
    const tile = (label, value, note, kind) => el('div.tile', {}, el('div.label', {}, label), el('div.value', {}, value), el(kind ? `div.note.${kind}` : 'div.note', {}, note));
    const before = report.baseline;
    const tiles = [
      tile('Least time of a run', format.time(profile.min_ms), before ? `${format.delta(profile.min_ms - before.min_ms)} against the baseline` : `median ${format.time(profile.total_ms)} of ${profile.repeats}`,
        before ? (profile.min_ms <= before.min_ms ? 'better' : 'worse') : null),
      tile('Of the floor', format.percent(floor / total), `kernels could not take less than ${format.time(floor)}`),
      tile('To gain in kernels', format.time(Math.max(0, total - floor)), 'at most, by what is measured here'),
      tile('Kernels', String(rows.length), `for ${profile.source_operators ?? rows.length} operators of the model`),
      tile('Saved by fusion', format.bytes(profile.fused_bytes), 'of memory traffic a run'),
    ];
    if (device) tiles.splice(3, 0, tile('Launch gaps', format.time(device.launch_gaps_ms), device.graph_ms ? `${format.time(device.graph_gaps_ms)} when replayed as one graph` : `not replayed: ${device.no_graph}`));
    byId('tiles').append(...tiles);
  }
  function where() {
    const sums = new Map();
    for (const r of rows) for (const p of r.parts && r.parts.length ? r.parts : [{cause: 'not explained', ms: r.min_ms}]) sums.set(p.cause, (sums.get(p.cause) || 0) + p.ms);
    const order = ['memory', 'arithmetic'], list = [...sums].sort((a, b) => (order.includes(b[0]) - order.includes(a[0])) || (a[0] === 'not explained') - (b[0] === 'not explained') || b[1] - a[1]);
    const total = report.totalLeast || 1e-12;
    byId('where').replaceChildren(
      el('div.stack-title', {}, el('span', {}, 'Where the time of the kernels goes'), el('span', {}, `${format.time(report.totalLeast)} in ${rows.length} kernels`)),
      el('div.stack', {role: 'img', 'aria-label': list.map(([c, ms]) => `${c} ${format.time(ms)}`).join(', ')},
        list.map(([c, ms]) => el('i', {title: `${c} ${format.time(ms)}`, style: {width: `${100 * ms / total}%`, background: colours.cause(c)}}))),
      el('div.keys', {}, list.map(([c, ms]) => el('span.key', {}, el('span.swatch', {style: {background: colours.cause(c)}}), c, el('b', {}, format.time(ms)), format.percent(ms / total)))));
  }
  function notes() {
    const list = [...(profile.notes || [])];
    if (profile.interruptions >= 1 || profile.total_ms > 1.3 * profile.min_ms)
      list.unshift(`Unsteady: the system took a processor away ${profile.interruptions.toFixed(1)} times a run on average, and the median run took ${format.ratio(profile.total_ms / profile.min_ms)} the least. Times here are the least of ${profile.repeats} runs.`);
    byId('notes').replaceChildren(...list.map(n => el('p.note-line', {}, n)));
  }
  function method() {
    const m = profile.machine, device = profile.device, pairs = [
      ['Processor', m.processor], ['Vector unit', m.level], ['Threads', device ? null : String(profile.threads)],
      ['Runs', `${profile.warmup} to warm up, ${profile.repeats} measured`],
      ['Copy bandwidth', (m.copies || []).map(c => `${format.rate(c.bytes_per_second, 'B')} at ${format.bytes(c.working_set)}`).join(', ') || format.rate(m.copy_bytes_per_second, 'B')],
      ['Arithmetic', [`${format.rate(m.flops_f32, 'FLOP')} f32`, m.flops_f64 ? `${format.rate(m.flops_f64, 'FLOP')} f64` : null, m.flops_half ? `${format.rate(m.flops_half, 'FLOP')} 16-bit` : null].filter(Boolean).join(', ')],
      ['Start of a kernel', format.time(m.dispatch_ms)], ['Ceilings measured', m.measured_at],
      ['Copies to and from the device', device ? `${format.time(device.upload_ms)} in, ${format.time(device.download_ms)} out, not part of the run` : null],
      ['Intermediate results', `${format.bytes(profile.memory.arena)} (no plan could do with less than ${format.bytes(profile.memory.lower_bound)})`],
      ['Constants', format.bytes(profile.memory.constants)],
    ];
    byId('method-body').classList.add('method');
    byId('method-body').append(el('dl', {}, pairs.filter(p => p[1]).flatMap(([k, v]) => [el('dt', {}, k), el('dd', {}, v)])),
      el('p', {}, 'A kernel is judged by the least of its runs: what other processes do can only add time. Its floor is the largest of three: the bytes that it must move over the bandwidth at that size, ' +
        'its operations over the peak, and the start of a kernel; all three ceilings were measured on this machine. What a change gains is an estimate from the figures shown with it.'));
  }

  // ---- sections in the bar, colours of the page
  function sections() {
    const list = [['overview', 'Overview'], ['losses', 'Losses'], ['graph', 'Operators'], ['roofline', 'Roofline'], ...(report.baseline ? [['comparison', 'Comparison']] : []), ['fusion', 'Fusion'], ['method', 'Method']];
    const links = list.map(([id, text]) => el('a', {href: `#${id}`}, text));
    byId('nav').append(...links);
    const mark = () => {
      const at = list.map(([id]) => byId(id).getBoundingClientRect().top), last = at.findLastIndex(top => top < innerHeight * 0.35);
      links.forEach((a, i) => (i === Math.max(0, last) ? a.setAttribute('aria-current', 'true') : a.removeAttribute('aria-current')));
    };
    addEventListener('scroll', mark, {passive: true});
    mark();
  }
  const themes = [['auto', '◐', 'as the system'], ['light', '○', 'light'], ['dark', '●', 'dark']];
  function theme(name) {
    const [key, sign, text] = themes.find(t => t[0] === name) || themes[0];
    document.documentElement.dataset.theme = key;
    Object.assign(byId('theme'), {textContent: sign, title: `Colours: ${text}`});
    byId('theme').setAttribute('aria-label', `Colours: ${text}`);
    try { localStorage.setItem('opwright-theme', key); } catch (e) { /* a page from a file may not be allowed to remember */ }
    colours.refresh();
    report.graph.refresh();
    report.roofline.refresh();
    where();
    report.panel.refresh();
  }
  report.theme = theme;

  function start() {
    overview();
    where();
    notes();
    method();
    report.losses();
    report.fusionTable();
    report.comparison();
    sections();
    byId('graph-hint').textContent = 'Every card is a kernel, with its time and share. Drag to move, scroll to zoom, click for all that is known of one.';
    byId('roofline-hint').textContent = 'Every dot is a kernel: how many operations it does a second, over how many it does for each byte that must be moved. The nearer to the roof, the less there is to gain.';
    report.roofline.init();
    report.ready = report.graph.init();
    report.search.init();
    byId('theme').addEventListener('click', () => {
      const at = themes.findIndex(t => t[0] === document.documentElement.dataset.theme);
      theme(themes[(at + 1) % themes.length][0]);
    });
    let kept = null;
    try { kept = localStorage.getItem('opwright-theme'); } catch (e) { /* as above */ }
    if (kept && kept !== 'auto') theme(kept);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => theme(document.documentElement.dataset.theme));
    document.addEventListener('keydown', event => { if (event.key === 'Escape' && report.panel.open) report.panel.hide(); });
  }
  start();
})();
