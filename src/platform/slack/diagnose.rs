//! Checks whether the tokens, the scopes and the home channel are sufficient for a handoff.

use super::Slack;
use super::address::Kind;
use super::scopes::lacking;
use crate::domain::HomeChannel;
use crate::platform::{Finding, PlatformError};

const TOKEN: &str = "slack token";
const APP_TOKEN: &str = "slack app token";
const SCOPES: &str = "slack scopes";
const HOME: &str = "slack home channel";

impl Slack {
    pub(super) async fn look_around(&self, home: Option<&HomeChannel>) -> Vec<Finding> {
        let mut found = Vec::new();
        match self.sign_in_bot().await {
            Ok(me) => found.push(Finding::good(
                TOKEN,
                format!("valid for @{} in {}", me.name, me.workspace),
            )),
            Err(error) => found.push(refused(TOKEN, &error, "platforms.slack.token")),
        }
        found.push(match self.api.open_connection().await {
            Ok(_) => Finding::good(APP_TOKEN, "Socket Mode is on"),
            Err(failure) => refused(APP_TOKEN, &failure.into(), "platforms.slack.app_token"),
        });
        if found[0].remedy.is_some() {
            return found;
        }
        found.extend(self.scope_findings());
        let Some(home) = home else {
            let remedy =
                "say /hermes sethome in the chat for handoffs, or set platforms.slack.home_channel";
            found.push(Finding::doubtful(HOME, "not set", remedy));
            return found;
        };
        found.push(self.home_finding(home).await);
        found
    }

    fn scope_findings(&self) -> Vec<Finding> {
        let missing = lacking(&self.scopes());
        let remedy =
            "add them at api.slack.com/apps (OAuth & Permissions) and install the app again";
        let told = missing.iter().map(|(feature, scopes)| {
            let detail = format!("{} needs {}", feature.what, scopes.join(", "));
            match feature.needed {
                true => Finding::bad(SCOPES, detail, remedy),
                false => Finding::doubtful(SCOPES, detail, remedy),
            }
        });
        let told: Vec<Finding> = told.collect();
        match told.is_empty() {
            true => vec![Finding::good(SCOPES, "complete")],
            false => told,
        }
    }

    async fn home_finding(&self, home: &HomeChannel) -> Finding {
        let bad = |error: PlatformError| {
            Finding::bad(
                HOME,
                format!("{}: {error}", home.chat_id),
                "correct platforms.slack.home_channel, or say /hermes sethome in another chat",
            )
        };
        let channel = match self.home_channel(home).await {
            Ok(channel) => channel,
            Err(failure) => return bad(failure.into()),
        };
        let place = match self.place(&channel, None).await {
            Ok(place) => place,
            Err(failure) => return bad(failure.into()),
        };
        let params = [("channel", channel.as_str()), ("limit", "1")];
        if let Err(failure) = self.api.ask("conversations.history", &params).await {
            return bad(failure.into());
        }
        let name = home.name.as_ref().or(place.name.as_ref());
        let what = match place.kind {
            Kind::Channel => "a channel with threads",
            Kind::Private => "a private chat with threads",
            Kind::PrivateGroup => "a chat of several people with threads",
        };
        Finding::good(HOME, format!("{}, {what}", name.unwrap_or(&channel)))
    }
}

fn refused(what: &str, error: &PlatformError, setting: &str) -> Finding {
    let remedy = match error {
        PlatformError::Unauthorized(_) | PlatformError::Permanent(_) => {
            format!("correct {setting}: api.slack.com/apps shows it")
        }
        _ => "check the network, a proxy, and platforms.slack.base_url".to_owned(),
    };
    Finding::bad(what, error.to_string(), remedy)
}
