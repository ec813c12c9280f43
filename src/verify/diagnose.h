// Experiments on a failing case that say what kind of fault it is.
#pragma once
#include <string>
#include <vector>

#include "verify/check.h"

namespace opwright::verify {

// Sentences, the most telling first: elements that nobody wrote, results that change from run to run or with the memory
// around an input, a layout that alone fails, arithmetic of lower precision, where the wrong elements lie. Empty for
// failures other than wrong results.
std::vector<std::string> diagnose(const Failure& f);

}  // namespace opwright::verify
