"""The course: chapters that are read, run as notebooks, and end in a puzzle that is judged."""

from tilegen.course.chapters import Chapter, chapters, find_chapter
from tilegen.course.judgement import Judgement, judge
from tilegen.course.notebook import notebook_of
from tilegen.course.puzzles import Puzzle

__all__ = ["Chapter", "Judgement", "Puzzle", "chapters", "find_chapter", "judge", "notebook_of"]
