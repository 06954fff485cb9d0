# The torch wheel as a plain target. `find_package(Torch)` is not used: with the CUDA wheel it demands a CUDA compiler.
#
# parascale_torch_wheel           the wheel's headers (SYSTEM) and libraries
# parascale_torch_module(...)     builds parascale_torch and torch_test from src/parascale_torch
if(NOT PARASCALE_TORCH_DIR)
  find_program(PARASCALE_PYTHON NAMES python3 HINTS ${CMAKE_SOURCE_DIR}/.venv/bin NO_CMAKE_PATH NO_CMAKE_ENVIRONMENT_PATH)
  # find_spec does not import torch, so that this takes 50 ms.
  execute_process(
    COMMAND ${PARASCALE_PYTHON} -c "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
    OUTPUT_VARIABLE torch_dir ERROR_VARIABLE torch_error RESULT_VARIABLE torch_status OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT torch_status EQUAL 0)
    message(FATAL_ERROR "no torch in ${PARASCALE_PYTHON}; run tools/setup, or configure with -DPARASCALE_TORCH=OFF (no worker then)")
  endif()
  set(PARASCALE_TORCH_DIR ${torch_dir} CACHE PATH "the torch package folder")
endif()
if(NOT EXISTS ${PARASCALE_TORCH_DIR}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "${PARASCALE_TORCH_DIR} holds no libtorch_cpu.so; run tools/setup, or set PARASCALE_TORCH_DIR")
endif()

find_package(Threads REQUIRED)
add_library(parascale_torch_wheel INTERFACE)
# The wheel ships headers of another fmt release without its library: ours must be found first.
find_path(PARASCALE_FMT_INCLUDE fmt/core.h)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/fmt_first)
file(CREATE_LINK ${PARASCALE_FMT_INCLUDE}/fmt ${CMAKE_BINARY_DIR}/fmt_first/fmt SYMBOLIC)
target_include_directories(parascale_torch_wheel SYSTEM INTERFACE
  ${CMAKE_BINARY_DIR}/fmt_first ${PARASCALE_TORCH_DIR}/include ${PARASCALE_TORCH_DIR}/include/torch/csrc/api/include)
target_compile_definitions(parascale_torch_wheel INTERFACE USE_DISTRIBUTED USE_C10D_GLOO USE_RPC USE_TENSORPIPE)
target_link_options(parascale_torch_wheel INTERFACE -Wl,--no-as-needed -Wl,-rpath,${PARASCALE_TORCH_DIR}/lib)
target_link_libraries(parascale_torch_wheel INTERFACE
  ${PARASCALE_TORCH_DIR}/lib/libtorch_cpu.so ${PARASCALE_TORCH_DIR}/lib/libc10.so Threads::Threads ${CMAKE_DL_LIBS})
if(EXISTS ${PARASCALE_TORCH_DIR}/lib/libtorch_cuda.so)
  target_link_libraries(parascale_torch_wheel INTERFACE
    ${PARASCALE_TORCH_DIR}/lib/libtorch_cuda.so ${PARASCALE_TORCH_DIR}/lib/libc10_cuda.so)
  target_link_options(parascale_torch_wheel INTERFACE -Wl,--allow-shlib-undefined)
endif()

function(parascale_torch_module)
  parascale_check_edges(torch)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/tests/")
  add_library(parascale_torch STATIC ${sources})
  target_include_directories(parascale_torch PUBLIC ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(parascale_torch PUBLIC parascale_protocol parascale_base parascale_torch_wheel fmt::fmt PRIVATE parascale_warnings)

  file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/tests/*_test.cpp)
  add_executable(torch_test ${tests})
  target_link_libraries(torch_test PRIVATE parascale_torch parascale_test_support parascale_warnings GTest::gmock_main)
  add_test(NAME unit.torch COMMAND torch_test WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  # One thread: the matrices are tiny, and waiting threads would spin beside the other tests.
  set_tests_properties(unit.torch PROPERTIES LABELS fast ENVIRONMENT OMP_NUM_THREADS=1)
endfunction()
