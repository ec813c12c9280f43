'use strict';
// Code with its words coloured: a library finds the tokens, and they enter the page as text.
report.highlight = (() => {
  const index = {pattern: /\b[a-z]\w*(?=\s*[,\]])/, alias: 'variable'};
  Prism.languages.opwright = {
    comment: /#.*/,
    string: /"(?:\\.|[^"\\])*"/,
    keyword: /\b(?:op|gradient|require|let|if|elif|else|for|in|example|where|outside|and|or|not)\b/,
    builtin: /\b(?:sum|prod|max|min|mean|any|all|argmax|argmin|select|exp|log|sqrt|tanh|erf|abs|floor|ceil|cast|size|scan)\b(?=\s*[[(])/,
    type: /\b(?:f16|bf16|f32|f64|i8|i16|i32|i64|u8|u16|u32|u64|bool)\b/,
    number: /\b\d+(?:\.\d+)?(?:e[+-]?\d+)?\b/i,
    function: /\b[a-z_]\w*(?=\s*\()/,
    index,
    operator: /->|\.\.|[-+*/=<>!]=?/,
    punctuation: /[[\]():,]/,
  };
  const languages = {llvm: 'llvm', cuda: 'cpp', c: 'c', ascend: 'cpp', triton: 'python', loop: 'c', tile: 'c', schedule: 'opwright', declaration: 'opwright', equations: 'opwright'};

  function append(parent, tokens) {
    for (const t of Array.isArray(tokens) ? tokens : [tokens]) {
      if (typeof t === 'string') {
        parent.append(t);
        continue;
      }
      const e = document.createElement('span');
      e.className = 't-' + t.type + (typeof t.alias === 'string' ? ' t-' + t.alias : '');
      append(e, t.content);
      parent.append(e);
    }
  }
  return (text, kind) => {
    const code = document.createElement('code'), grammar = Prism.languages[languages[kind]];
    if (grammar && text.length < 60000) append(code, Prism.tokenize(text, grammar));
    else code.textContent = text;
    return code;
  };
})();
