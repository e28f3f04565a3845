//! Capture files, read by two readers.
