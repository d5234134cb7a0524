"""Algorithms, one paper a file, and staleness rules."""

from typing import TYPE_CHECKING

from rayfed.core.plugins import lazy

if TYPE_CHECKING:  # for editors and type checkers; a test compares the list
    from rayfed.algorithms.adpsgd import ADPSGD as ADPSGD
    from rayfed.algorithms.apfl import APFL as APFL
    from rayfed.algorithms.asyncsgd import AsyncSGD as AsyncSGD
    from rayfed.algorithms.base import Algorithm as Algorithm
    from rayfed.algorithms.baselines import Centralised as Centralised
    from rayfed.algorithms.baselines import LocalOnly as LocalOnly
    from rayfed.algorithms.ca2fl import CA2FL as CA2FL
    from rayfed.algorithms.choco_sgd import ChocoSGD as ChocoSGD
    from rayfed.algorithms.clusterfedvarp.clusterfedvarp import ClusterFedVARP as ClusterFedVARP
    from rayfed.algorithms.dasha import Dasha as Dasha
    from rayfed.algorithms.dfedavg import DFedAvg as DFedAvg
    from rayfed.algorithms.diging import DIGing as DIGing
    from rayfed.algorithms.disco.disco import DiSCO as DiSCO
    from rayfed.algorithms.ditto import Ditto as Ditto
    from rayfed.algorithms.dpsgd import DPSGD as DPSGD
    from rayfed.algorithms.epidemic import Epidemic as Epidemic
    from rayfed.algorithms.exact_diffusion import ExactDiffusion as ExactDiffusion
    from rayfed.algorithms.extra import Extra as Extra
    from rayfed.algorithms.fedasync import FedAsync as FedAsync
    from rayfed.algorithms.fedat import FedAT as FedAT
    from rayfed.algorithms.fedavg import FedAvg as FedAvg
    from rayfed.algorithms.fedavgm import FedAvgM as FedAvgM
    from rayfed.algorithms.fedbn import FedBN as FedBN
    from rayfed.algorithms.fedbuff import FedBuff as FedBuff
    from rayfed.algorithms.feddrift import FedDrift as FedDrift
    from rayfed.algorithms.feddyn import FedDyn as FedDyn
    from rayfed.algorithms.federated_dropout import FederatedDropout as FederatedDropout
    from rayfed.algorithms.fedexp import FedExP as FedExP
    from rayfed.algorithms.fedhybrid.fedhybrid import FedHybrid as FedHybrid
    from rayfed.algorithms.fednova import FedNova as FedNova
    from rayfed.algorithms.fedopt import FedAdagrad as FedAdagrad
    from rayfed.algorithms.fedopt import FedAdam as FedAdam
    from rayfed.algorithms.fedopt import FedYogi as FedYogi
    from rayfed.algorithms.fedper import FedPer as FedPer
    from rayfed.algorithms.fedprox import FedProx as FedProx
    from rayfed.algorithms.fedrep import FedRep as FedRep
    from rayfed.algorithms.fedrolex import FedRolex as FedRolex
    from rayfed.algorithms.fedvarp import FedVARP as FedVARP
    from rayfed.algorithms.finetuned import FineTuned as FineTuned
    from rayfed.algorithms.giant import GIANT as GIANT
    from rayfed.algorithms.gossip_learning import GossipLearning as GossipLearning
    from rayfed.algorithms.gradient_descent import GradientDescent as GradientDescent
    from rayfed.algorithms.heterofl import HeteroFL as HeteroFL
    from rayfed.algorithms.hetlora import HetLoRA as HetLoRA
    from rayfed.algorithms.hierfavg import HierFAVG as HierFAVG
    from rayfed.algorithms.marina import Marina as Marina
    from rayfed.algorithms.maxfl import MaxFL as MaxFL
    from rayfed.algorithms.mifa import MIFA as MIFA
    from rayfed.algorithms.moon import Moon as Moon
    from rayfed.algorithms.multi_walk import MultiWalk as MultiWalk
    from rayfed.algorithms.overlap_sgd import OverlapSGD as OverlapSGD
    from rayfed.algorithms.perfedavg import PerFedAvg as PerFedAvg
    from rayfed.algorithms.pfedme import PFedMe as PFedMe
    from rayfed.algorithms.proxskip import ProxSkip as ProxSkip
    from rayfed.algorithms.rwsadmm.rwsadmm import RWSADMM as RWSADMM
    from rayfed.algorithms.scaffold import Scaffold as Scaffold
    from rayfed.algorithms.sgp import SGP as SGP
    from rayfed.algorithms.staleness import ConstantStaleness as ConstantStaleness
    from rayfed.algorithms.staleness import Hinge as Hinge
    from rayfed.algorithms.staleness import Polynomial as Polynomial
    from rayfed.algorithms.staleness import Staleness as Staleness
else:
    __getattr__, __dir__ = lazy(__name__)
