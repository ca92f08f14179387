"""Which copy of a shared library a program would load: the loader asked, or its rules followed."""
