"""Lesson 10. Training: the loop, the batches it reads, and the files it goes on from."""
