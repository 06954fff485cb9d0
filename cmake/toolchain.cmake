# Compiler launcher, linker and sanitizers: everything that depends on the machine and not on the code.
find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE})
endif()

find_program(MOLD mold)
if(MOLD)
  add_link_options(-fuse-ld=mold)
endif()

if(PARASCALE_SANITIZE)
  add_compile_options(-fsanitize=${PARASCALE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${PARASCALE_SANITIZE})
endif()

if(PARASCALE_SANITIZE)
  set(CMAKE_CXX_FLAGS_RELEASE "-O1 -g1")  # instrumented code takes twice as long to optimise, and the tests are short
else()
  set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1")
endif()
