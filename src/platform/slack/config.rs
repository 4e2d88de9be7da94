//! Reads the settings of Slack's own table.

use secrecy::{ExposeSecret, SecretString};

use super::NAME;
use super::address::{ThreadRules, is_person};
use crate::config::PlatformConfig;
use crate::platform::BuildError;

#[derive(Debug, Clone, Default)]
pub(super) struct SlackConfig {
    /// `None`: the vendor's own servers.
    pub(super) base_url: Option<String>,
    pub(super) reactions: bool,
    pub(super) threads: ThreadRules,
    /// The person whose private chat is the configured home channel.
    pub(super) home_person: Option<String>,
}

impl SlackConfig {
    pub(super) fn read(settings: &PlatformConfig) -> SlackConfig {
        let values = &settings.values;
        let home = settings.home_channel.as_ref();
        SlackConfig {
            base_url: values.text("base_url"),
            reactions: values.flag("reactions"),
            threads: ThreadRules {
                in_channels: values.flag("reply_in_thread"),
                in_private_chats: values.flag("dm_top_level_threads"),
            },
            home_person: home
                .map(|home| home.chat_id.clone())
                .filter(|id| is_person(id)),
        }
    }
}

/// The two tokens of an app.
pub(super) struct Tokens {
    /// For the Web API. It begins with `xoxb-`.
    pub(super) bot: SecretString,
    /// For Socket Mode. It begins with `xapp-`.
    pub(super) app: SecretString,
}

impl Tokens {
    /// A missing token, or one in the place of the other, is an error that names its setting.
    pub(super) fn read(settings: &PlatformConfig) -> Result<Tokens, BuildError> {
        let token = |setting: &str, begins: &str| {
            let found = settings.values.secret(setting);
            found.ok_or_else(|| {
                BuildError(format!(
                    "platforms.slack.{setting} is missing: it begins with {begins}, see api.slack.com/apps"
                ))
            })
        };
        let (bots, app) = (token("token", "xoxb-")?, token("app_token", "xapp-")?);
        let mut listed = bots.expose_secret().split(',').map(str::trim);
        let bot = listed.next().unwrap_or_default().to_owned();
        let others = listed.filter(|token| !token.is_empty()).count();
        if others > 0 {
            tracing::warn!(
                platform = NAME,
                others,
                "platforms.slack.token lists several workspaces: hermesd uses the first, the others get no answer"
            );
        }
        let app = app.expose_secret().trim().to_owned();
        for (setting, token, wrong, right) in [
            (
                "token",
                &bot,
                "xapp-",
                "the bot token, which begins with xoxb-",
            ),
            (
                "app_token",
                &app,
                "xox",
                "the app-level token, which begins with xapp-",
            ),
        ] {
            if token.starts_with(wrong) {
                return Err(BuildError(format!(
                    "platforms.slack.{setting} holds another token of the app: set it to {right}"
                )));
            }
        }
        Ok(Tokens {
            bot: bot.into(),
            app: app.into(),
        })
    }
}
