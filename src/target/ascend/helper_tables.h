// The tables that helpers.cpp chooses from, each in order of need.
#pragma once
#include <vector>

namespace opwright::target::ascend {

struct Helper {
    const char* name;
    std::vector<const char*> needs;  // of its own table or an earlier one
    const char* text;
};
const std::vector<Helper>& places_helpers();
const std::vector<Helper>& integers_helpers();
const std::vector<Helper>& floats_helpers();
const std::vector<Helper>& exponentials_helpers();
const std::vector<Helper>& circular_helpers();
const std::vector<Helper>& vectors_helpers();
const std::vector<Helper>& vectors_helpers();

}  // namespace opwright::target::ascend
