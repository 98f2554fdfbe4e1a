//! The command as a user sees it: transcripts, files, exit codes.
