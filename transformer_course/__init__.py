"""All that surrounds the encoder in a lesson: the list of lessons, figures, exercises and their checker."""
