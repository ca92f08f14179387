"""The explicit options of a launch, read without importing the framework that declares them."""
