//! hermesctl: arguments → call → exit code.

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
        .map_err(|e| CliError::Other(format!("no runtime: {e}")))
        .and_then(|runtime| {
            let outcome = runtime.block_on(cli::run(args));
            // A line that was never typed must not keep the process.
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
