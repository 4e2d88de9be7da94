//! Invoked by `hermesctl platforms`.
//!
//! Lists the platforms with their states and home channels.

use super::backend::Target;
use super::output::{Column, Output};
use super::{CliError, setup};
use crate::protocol::PlatformView;

pub(super) async fn run(target: &Target, out: &Output) -> Result<(), CliError> {
    let (_, backend) = target.open().await?;
    let platforms = backend.platforms().await?;
    out.value(&platforms)?;
    show(out, platforms)
}

/// Prints a table of the configured platforms, and one line with the others.
pub(super) fn show(out: &Output, platforms: Vec<PlatformView>) -> Result<(), CliError> {
    let (others, configured): (Vec<_>, Vec<_>) = platforms
        .into_iter()
        .partition(|platform| !platform.configured);
    let row = |p: PlatformView| {
        vec![
            p.name,
            p.state,
            p.home_channel.unwrap_or_default(),
            p.detail.unwrap_or_default(),
        ]
    };
    out.table(
        &[
            Column::whole("PLATFORM"),
            Column::whole("STATE"),
            Column::text("HOME CHANNEL").goes(1),
            Column::text("DETAIL"),
        ],
        &configured.into_iter().map(row).collect::<Vec<_>>(),
    )?;
    let names: Vec<String> = others.into_iter().map(|platform| platform.name).collect();
    match names.is_empty() {
        true => Ok(()),
        false => out.line(format!(
            "\nnot configured: {} ({})",
            names.join(", "),
            remedy(&names)
        )),
    }
}

fn remedy(names: &[String]) -> String {
    let known = setup::platforms();
    let guided = names.iter().find(|name| known.contains(&name.as_str()));
    match guided {
        Some(name) => format!("run `hermesctl setup {name}`"),
        None => "see hermesd.toml(5)".to_owned(),
    }
}
