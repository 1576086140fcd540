"""The one exception whose message is meant for the person at the keyboard."""


class UserError(Exception):
    """Something the user can mend: one clear sentence naming the file, the place and the remedy.

    The command line prints the message alone and exits with ``status``; library users catch it by name.
    """

    status = 1
