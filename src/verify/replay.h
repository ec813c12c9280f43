// A case as a file: the declaration, its arguments, the values to the bit, their layouts, and what was found. Reading
// one runs nothing, never crashes on whatever it holds, and allocates no more than a few times the file's size.
#pragma once
#include <string>

#include "verify/check.h"

namespace opwright::verify {

struct Replay {
    std::string declaration;  // source text of the operator's file; empty: the operator is one of the library
    Origin origin;            // without its attributes:
    std::string attributes;   // as text, "axis = 1"
    std::string target = "cpu", vector = "auto";
    std::string against;  // somebody else's kernel, as --against named it; empty: a target of Opwright
    Case c;
    std::string found;  // "wrong: 1 of 9 elements ..."
};

std::string to_json(const Replay& r);
// Errors: what of the text is no replay file, or of a later version.
Result<Replay> read_replay(const std::string& text);

// The Program and its library, as they were when the case was found. Errors: those of the declaration; tensors that do
// not fit it; work beyond what is run without being asked twice.
struct Rebuilt {
    std::shared_ptr<const lang::Library> library;
    std::shared_ptr<const math::Program> program;
    Case c;
    lang::Attributes attributes;
};
Result<Rebuilt> rebuild(const Replay& r);

}  // namespace opwright::verify
