// One message to a person: what is wrong, where, why, and the next step.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace opwright {

// A source text with its name (a path, or "<input>"). Spans point into it.
struct Source {
    std::string name;
    std::string text;
};
using SourceRef = std::shared_ptr<const Source>;

// Half-open byte range of a source. An empty source means "no place".
struct Span {
    SourceRef source;
    uint32_t begin = 0, end = 0;
};

struct Note {
    std::string text;
    Span span;  // may be without a place
};

struct Diagnostic {
    std::string message;      // one full sentence: the thing and the reason
    Span span;                // the main place
    std::string label;        // short text beside the caret, may be empty
    std::vector<Note> notes;  // further places and facts (names, extents)
    std::string next;         // the next step, one sentence, may be empty

    Diagnostic() = default;
    explicit Diagnostic(std::string m, Span s = {}, std::string next_step = {})
        : message(std::move(m)), span(std::move(s)), next(std::move(next_step)) {}
    Diagnostic& with_label(std::string t) { label = std::move(t); return *this; }
    Diagnostic& with_note(std::string t, Span s = {}) { notes.push_back({std::move(t), std::move(s)}); return *this; }
    Diagnostic& with_next(std::string t) { next = std::move(t); return *this; }
};

struct LineColumn { uint32_t line = 0, column = 0; };  // both count from 1
LineColumn locate(const Span& s);

// "error: MESSAGE\n  --> file:line:col\n   |  source line\n   |  ^^^^ label\n  = note: ...\n  = next: ...".
// Colours with ANSI sequences only when asked; never ends in a newline.
std::string render(const Diagnostic& d, bool colour = false);

// The candidate closest to `word` by edit distance, or "" when none is close enough to be a typing slip.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace opwright
