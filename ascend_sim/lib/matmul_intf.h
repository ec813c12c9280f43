#pragma once
#include "../kernel_operator.h"
#include "../sim/matmul.h"
