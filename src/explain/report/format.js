'use strict';
// Quantities and colours as people read them, and a short way to make elements. Text enters the page as text alone.
const {el, format, colours} = (() => {
  // el('div.card', {title: 'x', onclick: f}, child, 'text', ...)
  function el(kind, attributes = {}, ...children) {
    const [tag, ...classes] = kind.split('.');
    const e = document.createElement(tag);
    if (classes.length) e.className = classes.join(' ');
    for (const [key, value] of Object.entries(attributes)) {
      if (value === undefined || value === null || value === false) continue;
      if (key.startsWith('on')) e.addEventListener(key.slice(2), value);
      else if (key === 'style') for (const [property, v] of Object.entries(value)) e.style.setProperty(property, v);
      else e.setAttribute(key, value === true ? '' : value);
    }
    for (const c of children.flat()) if (c !== null && c !== undefined) e.append(c);
    return e;
  }

  const three = v => {
    const a = Math.abs(v);
    return v.toFixed(a >= 99.95 || a === 0 ? 0 : a >= 9.995 ? 1 : 2);
  };
  const scaled = (v, unit) => {
    const prefixes = ['', 'k', 'M', 'G', 'T', 'P'];
    let i = 0;
    while (Math.abs(v) >= 999.5 && i < 5) { v /= 1000; ++i; }
    return (i === 0 ? v.toFixed(Number.isInteger(v) || Math.abs(v) >= 100 ? 0 : 1) : three(v)) + (prefixes[i] || unit ? '\u202f' : '') + prefixes[i] + unit;
  };
  const format = {
    time: ms => (Math.abs(ms) >= 999.5 ? three(ms / 1000) + '\u202fs' : Math.abs(ms) >= 0.9995 ? three(ms) + '\u202fms' : three(ms * 1000) + '\u202fµs'),
    delta: ms => (ms > 0 ? '+' : ms < 0 ? '−' : '±') + format.time(Math.abs(ms)),
    bytes: b => scaled(b, 'B'),
    count: n => scaled(n, ''),
    rate: (n, unit) => scaled(n, unit + '/s'),
    percent: f => `${(100 * f).toFixed(f > 0 && f < 0.0995 ? 1 : 0)}\u202f%`,
    ratio: f => `${f >= 9.95 ? f.toFixed(0) : f.toFixed(2)}×`,
  };

  const boundVariable = {memory: '--memory', arithmetic: '--arithmetic', launch: '--launch'};
  const causeVariable = {
    start: '--launch', memory: '--memory', arithmetic: '--arithmetic', padding: '--padding', functions: '--functions',
    packing: '--packing', subnormals: '--subnormals', threads: '--threads', strides: '--strides', 'no vectors': '--scalar',
    'layout conversion': '--conversion', fusion: '--conversion', 'not explained': '--unknown',
  };
  let cache = new Map(), ramp = null, diverging = null;
  const variable = name => {
    if (!cache.has(name)) cache.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
    return cache.get(name);
  };
  const dark = () => getComputedStyle(document.documentElement).colorScheme.includes('dark');
  const colours = {
    variable,
    refresh() { cache = new Map(); ramp = null; diverging = null; },
    bound: b => variable(boundVariable[b] || '--unknown'),
    cause: c => variable(causeVariable[c] || '--unknown'),
    // 0..1, from what does not matter to what does.
    heat(t) {
      ramp = ramp || d3.interpolateRgbBasis(dark() ? ['#262c3a', '#5a4023', '#b0661f', '#f7a24a', '#ffe0b0'] : ['#eef1f5', '#fde3bb', '#f9ab55', '#dd5f17', '#a32608']);
      return ramp(Math.max(0, Math.min(1, t)));
    },
    // -1 (faster) .. 1 (slower).
    change(t) {
      diverging = diverging || d3.interpolateRgbBasis(dark() ? ['#3fc1a5', '#2a5a55', '#262c3a', '#6d3a55', '#ff7f9f'] : ['#0b7a63', '#9ed5c8', '#eef1f5', '#f0b4c6', '#b3124b']);
      return diverging((Math.max(-1, Math.min(1, t)) + 1) / 2);
    },
    // Black or white, whichever reads better on a colour.
    on(colour) {
      const c = d3.rgb(colour), linear = v => ((v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
      return 0.2126 * linear(c.r) + 0.7152 * linear(c.g) + 0.0722 * linear(c.b) > 0.179 ? '#000000' : '#ffffff';
    },
  };
  return {el, format, colours};
})();

report.boundText = {memory: 'memory', arithmetic: 'arithmetic', launch: 'start of a kernel'};
