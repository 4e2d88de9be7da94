//! Invoked by `hermesctl metrics`.
//!
//! Prints the daemon's metrics.

use super::CliError;
use super::backend::Target;
use super::output::Output;
use crate::metrics::text;
use crate::protocol::{Call, MetricsView, Nothing};

pub(super) async fn run(target: &Target, out: &Output) -> Result<(), CliError> {
    let (_, backend) = target.open().await?;
    let client = backend.daemon()?;
    let metrics: MetricsView = client.call(Call::Metrics(Nothing {})).await?;
    out.value(&text::families(&metrics.text))?;
    out.line(metrics.text.trim_end())
}
