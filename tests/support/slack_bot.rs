//! The built daemon with an app at the fake Slack.

use serde_json::Value;

use super::slack::{ADA, APP_TOKEN, Slack, TOKEN};
use super::{Daemon, Home, Ran, SESSION, until};

/// A home whose Slack app lives at `api`, as a Hermes user would have written it. Ada owns it.
pub struct SlackBot {
    pub home: Home,
    pub api: Slack,
    /// The home channel.
    pub channel: String,
}

impl SlackBot {
    pub fn at_home(channel: impl FnOnce(&Slack) -> String) -> SlackBot {
        let (home, api) = (Home::new(), Slack::start());
        let channel = channel(&api);
        let bot = SlackBot { home, api, channel };
        bot.configure(&format!("SLACK_HOME_CHANNEL={}\n", bot.channel), "");
        bot
    }

    /// With the public channel `work` as its home.
    pub fn in_channel() -> SlackBot {
        SlackBot::at_home(|api| api.public_channel("work"))
    }

    /// Writes Hermes' variables: the tokens, who is allowed and `env`; and our own file with `toml` in Slack's table.
    pub fn configure(&self, env: &str, toml: &str) {
        let env = format!(
            "SLACK_BOT_TOKEN={TOKEN}\nSLACK_APP_TOKEN={APP_TOKEN}\nSLACK_ALLOWED_USERS={}\n{env}",
            ADA.id
        );
        self.home.write(".env", &env);
        let url = self.api.url();
        let toml = format!("[platforms.slack]\nbase_url = \"{url}\"\n{toml}");
        self.home.write(".config/hermesd/hermesd.toml", &toml);
    }

    /// Starts the daemon and waits until it listens.
    pub fn start(&self) -> Daemon {
        let daemon = self.home.start();
        self.api.until_listening();
        daemon
    }

    pub fn hand_off(&self) -> Ran {
        let words = ["handoff", "slack", "--session", SESSION];
        self.home.hermesctl(&words)
    }

    /// Hands the session off and returns the root of its thread.
    pub fn thread(&self) -> String {
        let handed = self.hand_off();
        assert_eq!(handed.code, 0, "{handed:?}");
        self.roots().pop().expect("a thread")
    }

    /// The messages of handoffs that begin threads in the home channel.
    pub fn roots(&self) -> Vec<String> {
        let is_root = |metadata: &Value| metadata["event_type"] == "hermesd_thread";
        let messages = self.api.bot_messages(&self.channel).into_iter();
        let roots = messages.filter(|m| m.metadata.as_ref().is_some_and(is_root));
        roots.map(|message| message.ts).collect()
    }

    /// Waits for the bot's replies in a thread of the home channel that contain these words, and returns them.
    pub fn until_reply(&self, root: &str, words: &str) -> Vec<String> {
        self.api.until(words, || {
            let replies = self.api.bot_replies(&self.channel, root).into_iter();
            let texts = replies.map(|message| message.read());
            let texts: Vec<String> = texts.filter(|text| text.contains(words)).collect();
            (!texts.is_empty()).then_some(texts)
        })
    }

    /// One value of the database.
    pub fn look<T: rusqlite::types::FromSql>(&self, sql: &str) -> T {
        let row = self.home.sqlite().query_row(sql, [], |row| row.get(0));
        row.unwrap_or_else(|e| panic!("{sql}: {e}"))
    }

    /// Waits until `hermesctl platforms` has Slack in this state, and returns the detail.
    pub fn until_state(&self, state: &str) -> String {
        until(state, || {
            let all = self.home.hermesctl(&["--json", "platforms"]).json();
            let all = all.as_array().expect("a list").clone();
            let slack = all.into_iter().find(|p| p["name"] == "slack");
            let slack = slack.expect("slack");
            let detail = slack["detail"].as_str().unwrap_or_default().to_owned();
            (slack["state"] == state).then_some(detail)
        })
    }
}
