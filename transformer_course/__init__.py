"""What the lessons use besides the encoder: list of lessons, figures, exercises, checker, workspace."""
