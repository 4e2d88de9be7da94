//! Parses the arguments of hermesctl, calls [`cli::run`], and sets the exit code.

use std::process::ExitCode;

use clap::Parser;
use hermesd::cli::{self, CliError, output};

fn main() -> ExitCode {
    let args = cli::Args::parse();
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
