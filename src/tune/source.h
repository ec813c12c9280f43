// The tuning database as the compiler reads it.
#pragma once
#include <memory>
#include <string>

#include "target/tuned.h"

namespace opwright::tune {

// Winners for kernels that run on so many threads of this processor. Null where there is no database, where
// OPWRIGHT_TUNING=0 turns it off, or where it cannot be read: then `problem` says why, in a sentence, and what to do.
std::shared_ptr<const target::TunedSource> tuned_schedules(int threads, std::string& problem);

}  // namespace opwright::tune
