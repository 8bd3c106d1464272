//! Data that should not leave the organisation with a core.

use super::words;

words! {
    /// Kind of data that you may not want to share. If two kinds overlap, the first one in this list is reported.
    #[derive(Default)]
    pub enum SecretKind {
        /// A private key as a PEM block: RSA, EC, PKCS #8, OpenSSH, PGP; also encrypted ones.
        #[default]
        PrivateKey = "private-key",
        /// A JSON Web Token: three base64url parts (five if encrypted), the first of which is JSON with `alg`.
        Jwt = "jwt",
        /// The id of an AWS access key (`AKIA…`, `ASIA…`); the secret key is probably nearby.
        AwsAccessKey = "aws-access-key",
        /// A token of GitHub (`ghp_…`, `gho_…`, `ghu_…`, `ghs_…`, `ghr_…`, `github_pat_…`).
        GithubToken = "github-token",
        /// A personal token of GitLab (`glpat-…`).
        GitlabToken = "gitlab-token",
        /// A token of Slack (`xoxb-…` and the like).
        SlackToken = "slack-token",
        /// A live key of Stripe (`sk_live_…`, `rk_live_…`).
        StripeKey = "stripe-key",
        /// An API key of Google (`AIza…`).
        GoogleApiKey = "google-api-key",
        /// A token of npm (`npm_…`).
        NpmToken = "npm-token",
        /// A token of PyPI (`pypi-…`).
        PypiToken = "pypi-token",
        /// A key of an Azure storage account (`AccountKey=…`).
        AzureStorageKey = "azure-storage-key",
        /// The signature of a shared access signature of Azure (`sig=…` beside `sv=` or `se=`).
        AzureSas = "azure-sas",
        /// A password in a connection string, beside a server, host or user.
        ConnectionString = "connection-string",
        /// A password in a URL: `scheme://user:password@host`.
        UrlPassword = "url-password",
        /// Credentials of HTTP: `Bearer …`, or `Basic …` that decodes to a name and a password.
        HttpCredentials = "http-credentials",
        /// A value in an HTTP header `Cookie` or `Set-Cookie`.
        Cookie = "cookie",
        /// A value assigned to a name such as `password`, `secret`, `token` or `api_key`.
        NamedSecret = "named-secret",
        /// An account's number, IBAN, whose check digits are right.
        Iban = "iban",
        /// The number of a payment card: a known prefix, its length, and the check digit is right.
        CardNumber = "card-number",
        /// An e-mail address.
        EmailAddress = "email-address",
        /// An entry of the process's environment; not checked for secrets.
        Environment = "environment",
        /// An argument of the program after its name; not checked for secrets.
        Argument = "argument",
    }
}

words! {
    /// Possible damage if somebody else reads it.
    #[derive(Default)]
    pub enum SecretSeverity {
        /// Grants access by itself.
        Critical = "critical",
        /// Grants access for a while or probably, or concerns money.
        High = "high",
        /// Personal data.
        Personal = "personal",
        /// May be anything; needs a check.
        #[default]
        NeedsCheck = "look",
    }
}

impl SecretKind {
    /// The possible damage.
    pub const fn severity(self) -> SecretSeverity {
        match self {
            SecretKind::PrivateKey
            | SecretKind::AwsAccessKey
            | SecretKind::GithubToken
            | SecretKind::GitlabToken
            | SecretKind::SlackToken
            | SecretKind::StripeKey
            | SecretKind::GoogleApiKey
            | SecretKind::NpmToken
            | SecretKind::PypiToken
            | SecretKind::AzureStorageKey
            | SecretKind::ConnectionString
            | SecretKind::UrlPassword => SecretSeverity::Critical,
            SecretKind::Jwt
            | SecretKind::AzureSas
            | SecretKind::HttpCredentials
            | SecretKind::Cookie
            | SecretKind::NamedSecret
            | SecretKind::CardNumber => SecretSeverity::High,
            SecretKind::Iban | SecretKind::EmailAddress => SecretSeverity::Personal,
            SecretKind::Environment | SecretKind::Argument => SecretSeverity::NeedsCheck,
        }
    }
}
