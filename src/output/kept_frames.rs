//! kept_frames
