//! `hermesctl metrics`.

use super::CliError;
use super::backend::Backend;
use super::output::Output;
use crate::metrics::text;
use crate::protocol::{Call, MetricsView, Nothing};

pub(super) async fn run(backend: &dyn Backend, out: &Output) -> Result<(), CliError> {
    let client = backend.daemon()?;
    let metrics: MetricsView = client.call(Call::Metrics(Nothing {})).await?;
    out.value(&text::families(&metrics.text))?;
    out.line(metrics.text.trim_end())
}
