'use strict';
// Finds kernels by what they compute, their names, types and shapes; marks them in both charts and lists them.
report.search = (() => {
  const input = document.getElementById('search'), list = document.getElementById('results');
  const haystacks = report.rows.map(r => [r.type, r.name, r.shapes, r.schedule, r.bound, ...r.sources.flatMap(s => [s.name, s.type])].join('\n').toLowerCase());
  let rows = [], at = 0;

  function find(text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    return words.length ? report.byTime.filter(r => words.every(w => haystacks[r.index].includes(w))) : [];
  }
  function draw() {
    list.replaceChildren(...rows.slice(0, 50).map((r, i) => el('li', {role: 'option', id: `found-${i}`, 'aria-selected': String(i === at), onmousedown: event => { event.preventDefault(); go(i); }},
      el('span.what', {}, r.type), el('span.when', {}, format.time(r.min_ms)), el('span.who', {}, `${report.shortName(r.name)}  ${r.shapes}`))),
      ...(rows.length > 50 ? [el('li.none', {}, `and ${rows.length - 50} more`)] : rows.length ? [] : [el('li.none', {}, 'Nothing has that in its name, type or shapes')]));
    list.hidden = input.value.trim() === '';
    input.setAttribute('aria-expanded', String(!list.hidden));
    if (rows.length) input.setAttribute('aria-activedescendant', `found-${at}`); else input.removeAttribute('aria-activedescendant');
    list.children[at]?.scrollIntoView({block: 'nearest'});
  }
  function update() {
    rows = find(input.value);
    at = 0;
    const marked = input.value.trim() ? new Set(rows.map(r => r.index)) : null;
    report.graph.highlight(marked);
    report.roofline.highlight(marked);
    draw();
    if (marked) report.say(`${rows.length} found`);
  }
  function go(i) {
    at = i;
    draw();
    if (rows[i]) report.select(rows[i].index, 'search');
  }
  function clear() {
    input.value = '';
    update();
  }
  return {
    init() {
      input.addEventListener('input', update);
      input.addEventListener('blur', () => { list.hidden = true; });
      input.addEventListener('focus', draw);
      input.addEventListener('keydown', event => {
        if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
          at = Math.max(0, Math.min(Math.min(rows.length, 50) - 1, at + (event.key === 'ArrowDown' ? 1 : -1)));
          draw();
        } else if (event.key === 'Enter') {
          go(at);
          list.hidden = true;
        } else if (event.key === 'Escape') {
          if (input.value) clear(); else input.blur();
          event.stopPropagation();
        } else return;
        event.preventDefault();
      });
      document.addEventListener('keydown', event => {
        if (event.key !== '/' || /^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName)) return;
        event.preventDefault();
        input.focus();
        input.select();
      });
    },
    find,
  };
})();
