//! The built daemon with a bot at the fake Discord.

use super::Home;
use super::discord::{ADA, Discord, Id, TOKEN};

/// A home whose Discord bot lives at `api`, as a Hermes user would have written it. Ada owns it.
pub struct DiscordBot {
    pub home: Home,
    pub api: Discord,
    /// The home channel.
    pub channel: Id,
}

impl DiscordBot {
    pub fn at_home(channel: impl FnOnce(&Discord, Id) -> Id) -> DiscordBot {
        let (home, api) = (Home::new(), Discord::start());
        let guild = api.guild("Workshop");
        let channel = channel(&api, guild);
        let bot = DiscordBot { home, api, channel };
        bot.configure(&format!("DISCORD_HOME_CHANNEL={channel}\n"));
        bot
    }

    /// Writes Hermes' variables: the token, who is allowed and `more`.
    pub fn configure(&self, more: &str) {
        let env = format!(
            "DISCORD_BOT_TOKEN={TOKEN}\nDISCORD_ALLOWED_USERS={}\n{more}",
            ADA.id
        );
        self.home.write(".env", &env);
        let url = self.api.url();
        let toml = format!("[platforms.discord]\nbase_url = \"{url}\"\n");
        self.home.write(".config/hermesd/hermesd.toml", &toml);
    }
}
