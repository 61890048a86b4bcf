//! The timeline of a run as SVG: an axis of time with checkpoints, prompts, failures, sessions and gaps, and plots of
//! memory and changed files.
