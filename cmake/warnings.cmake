# Warnings are errors, for our own code only: linked PRIVATE, third-party headers are SYSTEM.
add_library(parascale_warnings INTERFACE)
target_compile_options(parascale_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wnon-virtual-dtor -Woverloaded-virtual
  -Wold-style-cast -Wcast-align -Werror
  -Wno-missing-field-initializers)  # designated initialisers leave defaults out on purpose
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # std::stable_sort of libstdc++ 12 uses what that library itself marks as deprecated.
  target_compile_options(parascale_warnings INTERFACE -Wno-deprecated-declarations)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(parascale_warnings INTERFACE -Wduplicated-cond -Wlogical-op
    -Wno-restrict)  # g++ 12 reports overlaps inside std::string that cannot happen
  if(NOT PARASCALE_SANITIZE)
    # Under sanitizers g++ 12 reports null dereferences in its own instrumentation.
    target_compile_options(parascale_warnings INTERFACE -Wnull-dereference)
  else()
    target_compile_options(parascale_warnings INTERFACE -Wno-maybe-uninitialized)
  endif()
endif()
