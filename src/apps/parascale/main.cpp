#include "parascale/cli/cli.h"

int main(int argc, char** argv) { return parascale::cli::run_program(argc, argv); }
