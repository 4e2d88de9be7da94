//! Handoffs and conversations with a bot at the fake Discord, with the built binaries.

use serde_json::Value;

use super::discord::{ADA, BOT_ID, BotMessage, ChannelKind, Discord, Id};
use super::discord_bot::DiscordBot;
use super::{Daemon, Ran, SESSION, until};

impl DiscordBot {
    /// A text channel is the home.
    pub fn in_text_channel() -> DiscordBot {
        DiscordBot::at_home(|api, guild| api.text_channel(guild, "work"))
    }

    /// A channel of this kind is the home.
    pub fn in_channel(kind: ChannelKind) -> DiscordBot {
        DiscordBot::at_home(|api: &Discord, guild| api.channel(guild, kind, "work"))
    }

    /// The guild of the home channel.
    pub fn guild(&self) -> Id {
        let world = self.api.world();
        *world.guilds.keys().next().expect("a guild")
    }

    /// Starts the daemon and waits until it listens.
    pub fn start(&self) -> Daemon {
        self.start_with(&[])
    }

    pub fn start_with(&self, environment: &[(&str, &str)]) -> Daemon {
        let daemon = self.home.start_with(environment);
        self.api.until_listening();
        daemon
    }

    pub fn hand_off(&self) -> Ran {
        self.home
            .hermesctl(&["handoff", "discord", "--session", SESSION])
    }

    /// Hands the session off, and gives its thread in the home channel.
    pub fn hand_off_to_thread(&self) -> Id {
        let handed = self.hand_off();
        assert_eq!(handed.code, 0, "{handed:?}");
        let threads = self.api.threads(self.channel);
        assert_eq!(threads.len(), 1, "{threads:?}");
        threads[0].id
    }

    /// The first handoff as hermesctl shows it.
    pub fn handoff(&self) -> Value {
        let show = ["--json", "handoffs", "show", "1"];
        self.home.hermesctl(&show).json()
    }

    /// Waits until the work of a start is done: the commands are registered, and the position is stored.
    pub fn until_settled(&self) {
        self.api.until("the commands", || {
            let world = self.api.world();
            let is_last = world.commands.iter().any(|c| c.name == "help");
            is_last.then_some(())
        });
        until("the position", || {
            let stored: i64 = self.look("SELECT count(*) FROM hermesd_cursors");
            (stored > 0).then_some(())
        });
    }

    /// One value of the database.
    pub fn look<T: rusqlite::types::FromSql>(&self, sql: &str) -> T {
        let row = self.home.sqlite().query_row(sql, [], |row| row.get(0));
        row.unwrap_or_else(|e| panic!("{sql}: {e}"))
    }

    /// Waits for a message of the bot with these words.
    pub fn answered(&self, channel: Id, words: &str) -> BotMessage {
        let has = |m: &BotMessage| m.content.contains(words);
        self.api.until_message(channel, has)
    }

    /// Ada says something, which is answered.
    pub fn asks(&self, channel: Id, words: &str) -> BotMessage {
        self.api.says(channel, &ADA, words);
        self.heard(channel, words)
    }

    /// Waits for the whole answer to words of Ada.
    pub fn heard(&self, channel: Id, words: &str) -> BotMessage {
        let answer = format!("You said: {words}\n(I remember");
        let is = |m: &BotMessage| unsigned(&m.content).starts_with(&answer);
        self.api.until_message(channel, is)
    }

    /// The bot's answers to what Ada said there, in order.
    pub fn answers(&self, channel: Id) -> Vec<String> {
        let texts = self.texts(channel).into_iter();
        let answers = texts.filter(|text| text.starts_with("You said: "));
        answers.map(|text| unsigned(&text)).collect()
    }

    /// What the bot has written there, in order.
    pub fn texts(&self, channel: Id) -> Vec<String> {
        let messages = self.api.messages_in(channel).into_iter();
        messages.map(|message| message.content).collect()
    }

    /// The next words there continue the session that was handed off.
    pub fn goes_on(&self, channel: Id, words: &str) {
        self.api.says(channel, &ADA, words);
        let answer = self.answered(channel, "I remember");
        assert!(
            answer.content.contains("I remember 6 messages"),
            "{answer:?}"
        );
        let sessions: i64 = self.look("SELECT count(*) FROM sessions");
        assert_eq!(sessions, 1, "the same session");
    }

    /// Waits until every message in the ledger has an outcome.
    pub fn until_all_sent(&self) {
        let open = "SELECT count(*) FROM hermesd_deliveries WHERE state IN ('pending', 'sending')";
        until("every message is sent", || {
            (self.look::<i64>(open) == 0).then_some(())
        });
    }

    /// Words that call the bot by its name.
    pub fn called(words: &str) -> String {
        format!("<@{BOT_ID}> {words}")
    }
}

/// The words without the name of their author, which stands before them where several people write.
fn unsigned(text: &str) -> String {
    text.replacen("\\[Ada] ", "", 1)
}
