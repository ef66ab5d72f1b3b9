"""How an exported folder is built: a CMakeLists.txt, and what it says to nvcc."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilegen.backends.text.lines import comment_lines

_CMAKE = """\
{title}
cmake_minimum_required(VERSION 3.18)
project({name} LANGUAGES CXX)
find_package(CUDAToolkit 12.8 REQUIRED)
if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release)
endif()

option({upper}_FROM_SOURCE "Compile the .cu files by nvcc, in place of the .fatbin files" OFF)

# The launchers hold the machine code: nothing else is needed to call the kernel.
add_library({name}_kernel {sources})
target_compile_features({name}_kernel PUBLIC cxx_std_17)
set_target_properties({name}_kernel PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_include_directories({name}_kernel PUBLIC "${{CMAKE_CURRENT_SOURCE_DIR}}")
target_link_libraries({name}_kernel PUBLIC CUDA::cudart)

function(add_code text)
    string(TOUPPER "${{text}}" upper)
    set(fatbin "${{CMAKE_CURRENT_SOURCE_DIR}}/${{text}}.fatbin")
    if({upper}_FROM_SOURCE)
        set(fatbin "${{CMAKE_CURRENT_BINARY_DIR}}/${{text}}.fatbin")
        add_custom_command(
            OUTPUT "${{fatbin}}"
            COMMAND "${{CUDAToolkit_NVCC_EXECUTABLE}}" --fatbin
                {flags} ${{ARGN}}
                -o "${{fatbin}}" "${{CMAKE_CURRENT_SOURCE_DIR}}/${{text}}.cu"
            DEPENDS "${{CMAKE_CURRENT_SOURCE_DIR}}/${{text}}.cu")
    endif()
    set_property(SOURCE "${{text}}.cpp" APPEND PROPERTY COMPILE_DEFINITIONS "${{upper}}_FATBIN=\\"${{fatbin}}\\"")
    set_property(SOURCE "${{text}}.cpp" APPEND PROPERTY OBJECT_DEPENDS "${{fatbin}}")
endfunction()
{codes}

enable_testing()
add_executable({name}_test {name}_test.cpp)
target_link_libraries({name}_test PRIVATE {name}_kernel)
add_test(NAME {name}_test COMMAND {name}_test)
set_tests_properties({name}_test PROPERTIES SKIP_RETURN_CODE 77)  # there is no GPU
"""


def cmake_lists(name: str, title: str, texts: Mapping[str, Sequence[str]], options: Sequence[str]) -> str:
    """The text of CMakeLists.txt.

    Args:
        title: lines of its head, without the signs of a comment.
        texts: the names of the .cu files, each with the architectures that it is compiled for.
        options: of the compiler, beside the architectures.
    """
    codes = [
        " ".join([f"add_code({text}", *(f"-gencode arch={a.replace('sm_', 'compute_')},code={a}" for a in archs)]) + ")"
        for text, archs in texts.items()
    ]
    return _CMAKE.format(
        title="\n".join(comment_lines(title, "#")),
        name=name,
        upper=name.upper(),
        sources=" ".join(f"{each}.cpp" for each in dict.fromkeys((name, *texts))),
        flags=" ".join(option for option in options if not option.startswith("-I")),
        codes="\n".join(codes),
    )
