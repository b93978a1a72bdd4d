"""The learner's desk: copies of the lessons to work in, and what was answered in them."""
