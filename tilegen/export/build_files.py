"""How an exported folder is built: a CMakeLists.txt, and what it says to nvcc."""

from __future__ import annotations

from collections.abc import Sequence

from tilegen.backends.text.lines import comment_lines

_CMAKE = """\
{title}
cmake_minimum_required(VERSION 3.18)
project({name} LANGUAGES CXX)
find_package(CUDAToolkit 12.8 REQUIRED)
if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release)
endif()

option({upper}_FROM_SOURCE "Compile {name}.cu by nvcc, in place of {name}.fatbin" OFF)
set(fatbin "${{CMAKE_CURRENT_SOURCE_DIR}}/{name}.fatbin")
if({upper}_FROM_SOURCE)
    set(fatbin "${{CMAKE_CURRENT_BINARY_DIR}}/{name}.fatbin")
    add_custom_command(
        OUTPUT "${{fatbin}}"
        COMMAND "${{CUDAToolkit_NVCC_EXECUTABLE}}" --fatbin
            {flags}
            -o "${{fatbin}}" "${{CMAKE_CURRENT_SOURCE_DIR}}/{name}.cu"
        DEPENDS "${{CMAKE_CURRENT_SOURCE_DIR}}/{name}.cu")
endif()

# The launcher holds the machine code: nothing else is needed to call the kernel.
add_library({name}_kernel {name}.cpp)
target_compile_features({name}_kernel PUBLIC cxx_std_17)
set_target_properties({name}_kernel PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_compile_definitions({name}_kernel PRIVATE {upper}_FATBIN="${{fatbin}}")
set_source_files_properties({name}.cpp PROPERTIES OBJECT_DEPENDS "${{fatbin}}")
target_include_directories({name}_kernel PUBLIC "${{CMAKE_CURRENT_SOURCE_DIR}}")
target_link_libraries({name}_kernel PUBLIC CUDA::cudart)

enable_testing()
add_executable({name}_test {name}_test.cpp)
target_link_libraries({name}_test PRIVATE {name}_kernel)
add_test(NAME {name}_test COMMAND {name}_test)
set_tests_properties({name}_test PROPERTIES SKIP_RETURN_CODE 77)  # there is no GPU
"""


def cmake_lists(name: str, title: str, archs: Sequence[str], options: Sequence[str]) -> str:
    """The text of CMakeLists.txt.

    Args:
        title: lines of its head, without the signs of a comment.
        options: of the compiler, beside the architectures.
    """
    flags = [*(option for option in options if not option.startswith("-I"))]
    flags += [f"-gencode arch={arch.replace('sm_', 'compute_')},code={arch}" for arch in archs]
    head = "\n".join(comment_lines(title, "#"))
    return _CMAKE.format(title=head, name=name, upper=name.upper(), flags="\n            ".join(flags))
