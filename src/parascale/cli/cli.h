#pragma once

namespace parascale::cli {

/// The whole program: parses, carries out, prints, and returns the exit code (0, 2, 3, 4, 5, 6, 70). No exception leaves it.
int run_program(int argc, const char* const* argv);

}  // namespace parascale::cli
