//! hermesctl: arguments → call → exit code.

use std::process::ExitCode;

use clap::Parser;
use hermesd::cli::{self, output};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args = cli::Args::parse();
    let json = args.json;
    match cli::run(args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::report(&error, json);
            ExitCode::from(error.exit_code())
        }
    }
}
