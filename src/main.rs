//! The `hdse` command; everything happens in [`hdse::cli`].

fn main() -> std::process::ExitCode {
    hdse::cli::main(std::env::args_os())
}
