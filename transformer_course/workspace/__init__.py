"""The learner's workspace: copies of the lessons, saved answers, and the encoder built from them."""
