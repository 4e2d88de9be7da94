//! `hello`, `status`, `metrics`, `platform.list`, `platform.examine`.

use std::path::Path;
use std::sync::atomic::Ordering;

use crate::config::paths;
use crate::control::Desk;
use crate::control::handlers::{Answer, answer, refused};
use crate::protocol::{
    Hello, HelloView, MetricsView, PROTOCOL, PlatformView, RpcError, StatusView, code,
};
use crate::views;

pub(in crate::control) fn hello(desk: &Desk, hello: &Hello) -> Answer {
    if hello.protocol != PROTOCOL {
        let (older, newer) = if hello.protocol < PROTOCOL {
            ("client", "daemon")
        } else {
            ("daemon", "client")
        };
        let message = format!(
            "the client speaks protocol {} and this daemon {PROTOCOL}",
            hello.protocol
        );
        let hint = format!("upgrade the {older} to the version of the {newer}");
        return Err(RpcError::new(code::REFUSED, message).with_data("protocol", Some(hint)));
    }
    tracing::debug!(
        client = hello.client,
        version = hello.version,
        "client connected"
    );
    answer(&HelloView {
        server: "hermesd".into(),
        version: crate::VERSION.into(),
        protocol: PROTOCOL,
        home: desk.home.clone(),
        pid: std::process::id(),
    })
}

pub(super) async fn status(desk: &Desk) -> Answer {
    answer(&StatusView {
        version: crate::VERSION.into(),
        pid: std::process::id(),
        home: desk.home.clone(),
        profile: paths::profile_name(Path::new(&desk.home)),
        started_at: desk.started_at,
        agent: desk.turns.agents().default_name().into(),
        sessions: desk.store.session_count().await?,
        handoffs_running: desk.queue.running(),
        turns_running: desk.turns.leases.count(),
        connections: desk.connections.load(Ordering::Relaxed),
        platforms: platform_views(desk),
    })
}

pub(super) fn metrics(desk: &Desk) -> Answer {
    answer(&MetricsView {
        text: desk.metrics_text(),
    })
}

pub(super) fn platforms(desk: &Desk) -> Answer {
    answer(&platform_views(desk))
}

pub(super) async fn examine(desk: &Desk, name: &str) -> Answer {
    let Some(platform) = desk.platforms.adapter(name) else {
        return Err(refused(
            "platform_off",
            format!("{name} is not available"),
            "see `hermesctl platforms`",
        ));
    };
    let home = desk.platforms.home(name);
    let found = platform.examine(home.as_ref()).await;
    answer(&found.into_iter().map(views::finding).collect::<Vec<_>>())
}

fn platform_views(desk: &Desk) -> Vec<PlatformView> {
    desk.platforms
        .all()
        .into_iter()
        .map(views::platform)
        .collect()
}
