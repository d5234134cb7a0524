"""The server of the app."""

from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from adamw_app.task import model

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context):
    FedAvg().start(
        grid=grid,
        initial_arrays=ArrayRecord(model().state_dict()),
        num_rounds=context.run_config["num-server-rounds"],
    )
