"""Programs that use Duebook; each can be copied and run by itself."""
