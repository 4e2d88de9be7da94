//! Parses the arguments of hermesctl, calls [`cli::run`], and sets the exit code.

use std::process::ExitCode;

use clap::Parser;
use hermesd::cli::{self, CliError, output};

/// Prints the help or version that was asked for, or what is wrong with the command line: as JSON if it asks for JSON.
fn misused(error: &clap::Error) -> ExitCode {
    let json = std::env::args_os()
        .take_while(|argument| argument != "--")
        .any(|argument| argument == "--json");
    if !error.use_stderr() || !json {
        error.exit();
    }
    let error = CliError::from(error);
    output::report(&error, true);
    ExitCode::from(error.exit_code())
}

fn main() -> ExitCode {
    let args = match cli::Args::try_parse() {
        Ok(args) => args,
        Err(error) => return misused(&error),
    };
    let json = args.global.json;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let outcome = runtime
        .map_err(|e| CliError::Other(format!("the async runtime cannot start: {e}")))
        .and_then(|runtime| {
            let outcome = runtime.block_on(cli::run(args));
            // A pending read of the keyboard must not hold up the exit.
            runtime.shutdown_background();
            outcome
        });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::report(&error, json);
            ExitCode::from(error.exit_code())
        }
    }
}
