//! Handles `hello`, `status`, `metrics`, `config.reload`, `platform.list` and `platform.examine`.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use tokio::sync::oneshot;

use crate::config::{Config, paths};
use crate::control::ControlContext;
use crate::control::handlers::{Answer, answer, refused};
use crate::domain::RefusalKind;
use crate::protocol::{
    Hello, HelloView, MetricsView, PROTOCOL, PlatformView, RpcError, StatusView, UnreadFileView,
    code,
};
use crate::sessions::{RequestError, stopping};
use crate::views;

pub(in crate::control) fn hello(context: &ControlContext, hello: &Hello) -> Answer {
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
        return Err(RpcError::new(code::REFUSED, message)
            .with_data(RefusalKind::Protocol.as_str(), Some(hint)));
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
        home: context.home.clone(),
        pid: std::process::id(),
    })
}

pub(super) async fn status(context: &ControlContext) -> Answer {
    answer(&StatusView {
        version: crate::VERSION.into(),
        pid: std::process::id(),
        home: context.home.clone(),
        profile: paths::profile_name(Path::new(&context.home)),
        started_at: context.started_at,
        agent: context.turns.agents().default_name().into(),
        sessions: context.store.session_count().await?,
        handoffs_running: context.queue.running(),
        turns_running: context.turns.locks.count(),
        connections: context.connections.load(Ordering::Relaxed),
        platforms: platform_views(context),
        unread: unread(context),
    })
}

/// The configuration files that were changed after the daemon read them.
fn unread(context: &ControlContext) -> Vec<UnreadFileView> {
    let files = context.reload.files.get();
    let seconds = |time: SystemTime| {
        let since = time.duration_since(SystemTime::UNIX_EPOCH);
        since.map_or(0.0, |since| since.as_secs_f64())
    };
    let view = |(path, changed): (&Path, Option<SystemTime>)| UnreadFileView {
        path: path.display().to_string(),
        changed_at: changed.map(seconds),
    };
    Config::unread(&files).into_iter().map(view).collect()
}

pub(super) async fn reload(context: &ControlContext) -> Answer {
    let (sender, outcome) = oneshot::channel();
    let asked = context.reload.requests.send(sender).await;
    match asked.ok().map(|()| outcome) {
        Some(outcome) => match outcome.await {
            Ok(Ok(reloaded)) => answer(&reloaded),
            Ok(Err(why)) => Err(refused(
                RefusalKind::Config,
                format!("The configuration is wrong, and nothing was changed: {why}"),
                "correct it: `hermesd --check-config` shows the settings in effect",
            )),
            Err(_) => Err(RequestError::from(stopping()).into()),
        },
        None => Err(RequestError::from(stopping()).into()),
    }
}

pub(super) fn metrics(context: &ControlContext) -> Answer {
    answer(&MetricsView {
        text: context.metrics_text(),
    })
}

pub(super) fn platforms(context: &ControlContext) -> Answer {
    answer(&platform_views(context))
}

pub(super) async fn examine(context: &ControlContext, name: &str) -> Answer {
    let Some(platform) = context.platforms.adapter(name) else {
        return Err(refused(
            RefusalKind::PlatformOff,
            format!("{name} is not available"),
            "see `hermesctl platforms`",
        ));
    };
    let home = context.platforms.home(name);
    let found = platform.diagnose(home.as_ref()).await;
    answer(&found.into_iter().map(views::finding).collect::<Vec<_>>())
}

fn platform_views(context: &ControlContext) -> Vec<PlatformView> {
    context
        .platforms
        .all()
        .into_iter()
        .map(views::platform)
        .collect()
}
