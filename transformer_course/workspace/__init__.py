"""The learner's copies of the lessons, what was answered in them, and what it grows into."""
