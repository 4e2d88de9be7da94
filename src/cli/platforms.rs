//! `hermesctl platforms`.

use super::CliError;
use super::backend::Backend;
use super::output::Output;
use crate::config::Config;
use crate::platform::Platforms;
use crate::protocol::{Call, Nothing, PlatformView};
use crate::views;

pub(super) async fn run(backend: &Backend, config: &Config, out: &Output) -> Result<(), CliError> {
    let platforms: Vec<PlatformView> = match backend {
        Backend::Daemon(client) => client.call(Call::PlatformList(Nothing {})).await?,
        // What the configuration says; whether it works only a daemon can tell.
        Backend::Direct(store) => Platforms::configured(config, store)
            .all()
            .into_iter()
            .map(views::platform)
            .collect(),
    };
    out.value(&platforms)?;
    out.table(
        &["PLATFORM", "STATE", "HOME CHANNEL", "DETAIL"],
        &rows(platforms),
    )
}

pub(super) fn rows(platforms: Vec<PlatformView>) -> Vec<Vec<String>> {
    let row = |p: PlatformView| {
        vec![
            p.name,
            p.state,
            p.home_channel.unwrap_or_default(),
            p.detail.unwrap_or_default(),
        ]
    };
    platforms.into_iter().map(row).collect()
}
