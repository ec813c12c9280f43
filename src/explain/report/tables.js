'use strict';
// Tables of kernels and of the fusion log: sorted by a click, cut where they are long.
report.table = (host, columns, items, {sort, descending = true, first = 12, row = () => ({})}) => {
  let by = sort, down = descending, all = false;
  const draw = () => {
    const column = columns.find(c => c.key === by);
    const sorted = column && column.value ? [...items].sort((a, b) => {
      const x = column.value(a), y = column.value(b);
      return (typeof x === 'string' ? x.localeCompare(y) : x - y) * (down ? -1 : 1);
    }) : items;
    const shown = all ? sorted : sorted.slice(0, first);
    const head = el('tr', {}, columns.map(c => el(c.number ? 'th.number' : 'th', {scope: 'col', 'aria-sort': c.key === by ? (down ? 'descending' : 'ascending') : null},
      c.value ? el('button', {type: 'button', onclick: () => { down = c.key === by ? !down : c.number || c.down === true; by = c.key; draw(); }}, c.text) : c.text)));
    const body = shown.map(item => el('tr', row(item), columns.map(c => el(c.number ? 'td.number' : c.class ? `td.${c.class}` : 'td', {}, c.cell(item)))));
    host.replaceChildren(el('div.scroll', {}, el('table', {}, el('thead', {}, head), el('tbody', {}, body))),
      ...(sorted.length > first ? [el('button.more', {type: 'button', onclick: () => { all = !all; draw(); }}, all ? `Show the first ${first}` : `Show all ${sorted.length}`)] : []));
    report.markRows();
  };
  draw();
  return draw;
};

report.opCell = r => el('button.op', {type: 'button', title: `${r.type}\n${r.name}\n${r.shapes || ''}`}, el('div.what', {}, r.type || r.name), r.name !== r.type ? el('div.who', {}, report.shortName(r.name)) : null);
report.pickRow = r => ({class: 'pick', 'data-row': r.index, onclick: () => report.select(r.index, 'table')});
report.badge = bound => el('span.badge', {}, el('span.swatch', {style: {background: `var(--${bound})`}}), report.boundText[bound]);
report.meter = (share, colour = 'var(--accent)') => el('div.meter', {'aria-hidden': 'true'}, el('i', {style: {width: `${100 * Math.min(1, share)}%`, background: colour}}));

report.markRows = () => {
  for (const tr of document.querySelectorAll('tr[data-row]')) tr.classList.toggle('chosen', Number(tr.dataset.row) === report.chosen);
};

report.losses = () => {
  const host = document.getElementById('losses-table');
  const most = Math.max(...report.rows.map(r => r.gain), 1e-12);
  document.getElementById('losses-hint').textContent =
    'Kernels by what the one next change to each would gain at most. A floor is what the bytes, the operations or the start of a kernel cost on this machine, whichever is most.';
  const columns = [
    {key: 'op', text: 'Kernel', value: r => r.type, cell: report.opCell},
    {key: 'time', text: 'Time', number: true, value: r => r.min_ms, cell: r => format.time(r.min_ms)},
    {key: 'share', text: 'Share', number: true, value: r => r.share, cell: r => format.percent(r.share)},
    {key: 'floor', text: 'Of floor', number: true, value: r => r.of_floor, cell: r => format.percent(r.of_floor)},
    {key: 'bound', text: 'Bound by', value: r => r.bound, cell: r => report.badge(r.bound)},
    {key: 'gain', text: 'To gain', number: true, value: r => r.gain, cell: r => format.time(r.gain)},
    {key: 'meter', text: '', cell: r => report.meter(r.gain / most, r.changes.length ? colours.cause(r.changes[0].cause) : undefined)},
    {key: 'next', text: 'Next', class: 'next', cell: r => el('span', {title: r.changes.length ? r.changes[0].what : ''}, r.changes.length ? [el('b', {}, r.changes[0].cause), `: ${r.changes[0].what}`] : 'at its floor, as far as can be told')},
  ];
  report.table(host, columns, report.rows, {sort: 'gain', row: report.pickRow});
};

report.fusionTable = () => {
  const log = report.profile.fusion, host = document.getElementById('fusion-table'), hint = document.getElementById('fusion-hint');
  const taken = log.filter(d => d.taken).length;
  hint.textContent = log.length ? `${taken} of ${log.length} candidates taken, which saves ${format.bytes(report.profile.fused_bytes)} of memory traffic a run. Each with its reason:`
    : 'There were no candidates: no kernel passes an intermediate result to another.';
  if (!log.length) { host.hidden = true; return; }
  const columns = [
    {key: 'taken', text: 'Verdict', value: d => Number(d.taken), cell: d => (d.taken ? 'fused' : 'kept apart')},
    {key: 'producer', text: 'Producer', value: d => d.producer, cell: d => el('span.name', {title: d.producer}, report.shortName(d.producer))},
    {key: 'consumer', text: 'Consumer', value: d => d.consumer, cell: d => el('span.name', {title: d.consumer}, report.shortName(d.consumer))},
    {key: 'bytes', text: 'Traffic', number: true, value: d => d.bytes, cell: d => format.bytes(d.bytes)},
    {key: 'reason', text: 'Reason', class: 'next', cell: d => d.reason + report.fusionMore(d)},
  ];
  report.table(host, columns, [...log].sort((a, b) => a.taken - b.taken), {sort: 'bytes'});
};
