// Everything that can be said of a file of declarations without running it.
#pragma once
#include <vector>

#include "base/diagnostic.h"
#include "lang/library.h"

namespace opwright::lang {

// Parses the file, elaborates every operator with symbolic extents and every example. All errors, in order of the text;
// at most one for each elaboration.
std::vector<Diagnostic> check(SourceRef source);

}  // namespace opwright::lang
